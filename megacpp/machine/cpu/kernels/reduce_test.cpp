// SPDX-License-Identifier: Apache-2.0
// reduce on shapes the op's samples are too small for: rows in blocks, inner dimensions folded first, copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "megacpp/core/base/philox.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/program/ops/op_def.h"
#include "tests/support/aligned_buffer.h"

namespace megacpp::runtime::cpu {

Kernel reduce_kernel();

namespace {

using testing_support::AlignedBuffer;
using testing_support::allocate_aligned;

struct Reduction {
  std::string name;
  ir::Shape shape;
  std::vector<int64_t> dims;
};

void PrintTo(const Reduction& row, std::ostream* out) { *out << row.name; }

std::vector<float> reduced(const ops::Tensor& x, const Reduction& row, const std::string& kind, int threads) {
  const ops::Types operands = {x.type};
  const ir::Attrs attrs = {{"dims", row.dims}, {"kind", kind}};
  const ops::Types results = ops::op_def("reduce").infer(operands, attrs);
  const Prepared prepared = reduce_kernel().prepare({operands, results, attrs}, threads);
  const AlignedBuffer in = allocate_aligned(std::max<int64_t>(1, x.type.bytes())),
                      out = allocate_aligned(std::max<int64_t>(1, results[0].bytes())),
                      scratch = allocate_aligned(std::max<int64_t>(1, prepared.workspace_bytes));
  std::copy(x.data.begin(), x.data.end(), reinterpret_cast<float*>(in.get()));
  base::ThreadPool pool(threads);
  std::byte* const from = in.get();
  std::byte* const to = out.get();
  prepared.run({{&from, 1}, {&to, 1}, scratch.get(), pool});
  const float* const values = reinterpret_cast<const float*>(to);
  return {values, values + results[0].elements()};
}

class ReduceKernelTest : public testing::TestWithParam<Reduction> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, ReduceKernelTest,
    testing::Values(Reduction{"RowsInBlocks", {300, 5}, {0}}, Reduction{"FewLongRows", {3, 1000}, {0}},
                    Reduction{"BlocksOfLongRows", {200, 130}, {0}}, Reduction{"BlocksInParts", {130, 9001}, {0}},
                    Reduction{"BehindOne", {1, 300, 5}, {1}}, Reduction{"OuterAndInner", {200, 3, 7}, {0, 2}},
                    Reduction{"BehindAKeptOne", {3, 200, 2, 5}, {1, 3}}, Reduction{"BetweenKeptOnes", {4, 150, 6}, {1}},
                    Reduction{"Inner", {40, 33}, {1}}, Reduction{"Everything", {130, 9}, {0, 1}},
                    Reduction{"Nothing", {12, 5}, {}}, Reduction{"NoRows", {0, 5}, {0}},
                    Reduction{"NoColumns", {5, 0}, {0}}, Reduction{"NoInner", {2, 3, 4, 0}, {1, 3}}),
    [](const auto& info) { return info.param.name; });

TEST_P(ReduceKernelTest, EqualsTheReferenceInTheSameBitsOnAnyPool) {
  const Reduction& row = GetParam();
  ops::Tensor x = ops::Tensor::zeros({ir::DType::f32, row.shape});
  const base::Philox random(5, row.name);
  for (int64_t i = 0; i < x.elements(); ++i)
    x[i] = static_cast<double>(static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i)) - 1));
  const ops::OpDef& op = ops::op_def("reduce");
  for (const std::string kind : {"sum", "max"}) {
    const ir::Attrs attrs = {{"dims", row.dims}, {"kind", kind}};
    std::vector<ops::Tensor> wanted = {ops::Tensor::zeros(op.infer({x.type}, attrs)[0])};
    const std::vector<ops::Tensor> operands = {x};
    op.reference(operands, wanted, attrs);
    const std::vector<float> alone = reduced(x, row, kind, 1);
    ASSERT_EQ(static_cast<int64_t>(alone.size()), wanted[0].elements());
    for (size_t i = 0; i < alone.size(); ++i) {
      const double right = wanted[0][static_cast<int64_t>(i)];
      const bool are_same = alone[i] == right;  // as where both are -inf
      EXPECT_TRUE(are_same || std::fabs(alone[i] - right) <= 1e-4) << kind << " of element " << i << ": " << alone[i];
    }
    for (const int threads : {2, 3, 4}) EXPECT_EQ(reduced(x, row, kind, threads), alone) << threads << " threads";
  }
}

}  // namespace
}  // namespace megacpp::runtime::cpu
