// SPDX-License-Identifier: Apache-2.0
// ssd and ssd_grad on shapes the op's samples are too small for: several chunks, ragged ends, head blocks.
#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/core/base/philox.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/program/ops/op_def.h"
#include "tests/support/aligned_buffer.h"

namespace megacpp::runtime::cpu {

Kernel ssd_kernel();
Kernel ssd_grad_kernel();

namespace {

using testing_support::AlignedBuffer;
using testing_support::allocate_aligned;

struct Shape {
  int64_t batch, seq, groups, heads_per_group, head_dim, state, chunk;
};

std::vector<ops::Tensor> make_operands(const Shape& z) {
  const int64_t heads = z.groups * z.heads_per_group;
  const ir::Shape x = {z.batch, z.seq, heads, z.head_dim}, b = {z.batch, z.seq, z.groups, z.state};
  std::vector<ops::Tensor> operands;
  for (const ir::Shape& shape : {x, ir::Shape{z.batch, z.seq, heads}, ir::Shape{heads}, b, b, x}) {
    const base::Philox random(11, "operand" + std::to_string(operands.size()));
    ops::Tensor tensor = ops::Tensor::zeros({ir::DType::f32, shape});
    for (int64_t i = 0; i < tensor.elements(); ++i) tensor[i] = 2 * random.uniform(static_cast<uint64_t>(i)) - 1;
    operands.push_back(std::move(tensor));
  }
  for (double& dt : operands[1].data) dt = 0.55 + 0.5 * dt;
  for (double& a : operands[2].data) a = -0.85 + 0.75 * a;
  for (ops::Tensor& tensor : operands)
    for (double& value : tensor.data) value = static_cast<double>(static_cast<float>(value));
  return operands;
}

void expect_equal(const ops::Tensor& wanted, const float* got) {
  double largest = 1e-6;
  for (const double value : wanted.data) largest = std::max(largest, std::fabs(value));
  for (int64_t i = 0; i < wanted.elements(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), wanted[i], 1e-5 * largest) << "element " << i;
}

void check(const Kernel& kernel, std::vector<ops::Tensor> operands, int64_t chunk, int threads) {
  const ops::OpDef& op = ops::op_def(kernel.op);
  const ir::Attrs attrs = {{"chunk", chunk}};
  ops::Types types;
  std::vector<AlignedBuffer> buffers;
  std::vector<std::byte*> in, out;
  for (const ops::Tensor& tensor : operands) {
    types.push_back(tensor.type);
    in.push_back(buffers.emplace_back(allocate_aligned(tensor.type.bytes())).get());
    std::copy(tensor.data.begin(), tensor.data.end(), reinterpret_cast<float*>(in.back()));
  }
  const ops::Types result_types = op.infer(types, attrs);
  std::vector<ops::Tensor> wanted;
  for (const ir::TensorType& type : result_types) {
    wanted.push_back(ops::Tensor::zeros(type));
    out.push_back(buffers.emplace_back(allocate_aligned(type.bytes())).get());
  }
  op.reference(operands, wanted, attrs);
  const Prepared prepared = kernel.prepare({types, result_types, attrs}, threads);
  const AlignedBuffer workspace = allocate_aligned(prepared.workspace_bytes);
  base::ThreadPool pool(threads);
  prepared.run({in, out, workspace.get(), pool});
  for (size_t r = 0; r < wanted.size(); ++r) {
    SCOPED_TRACE("result " + std::to_string(r));
    expect_equal(wanted[r], reinterpret_cast<const float*>(out[r]));
  }
}

class SsdKernelTest : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, SsdKernelTest,
                         testing::Values(Shape{2, 130, 2, 3, 7, 5, 64}, Shape{1, 97, 1, 5, 4, 9, 128},
                                         Shape{1, 33, 3, 2, 3, 4, 8}, Shape{3, 1, 1, 2, 5, 3, 4}));

TEST_P(SsdKernelTest, EqualsTheStepRecurrenceOnAnyNumberOfThreads) {
  std::vector<ops::Tensor> operands = make_operands(GetParam());
  for (int threads = 1; threads <= 3; ++threads) {
    SCOPED_TRACE(threads);
    check(ssd_grad_kernel(), operands, GetParam().chunk, threads);
    check(ssd_kernel(), {operands.begin(), operands.end() - 1}, GetParam().chunk, threads);
  }
}

}  // namespace
}  // namespace megacpp::runtime::cpu
