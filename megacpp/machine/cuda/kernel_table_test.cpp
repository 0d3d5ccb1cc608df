// SPDX-License-Identifier: Apache-2.0
// What kernels say of themselves on machines without a GPU: how long small nodes take.
#include <gtest/gtest.h>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::runtime::cuda {
namespace {

using ir::DType;

double least_seconds(std::string_view op, const ops::Types& operands, const ir::Attrs& attrs) {
  const ops::Types results = ops::op_def(op).infer(operands, attrs);
  return find_kernel(op)->least_seconds({operands, results, attrs});
}

// Plans ask for every node of a program: none may be refused, and small ones take microseconds.
TEST(KernelTableTest, SamplesOfAllOpsHaveAPlausibleLeastTime) {
  int asked = 0;
  for (const Kernel& kernel : all_kernels()) {
    if (!kernel.least_seconds) continue;
    const ops::OpDef& op = ops::op_def(kernel.op);
    for (const ops::Sample& sample : op.samples()) {
      const ops::Types results = op.infer(sample.operands, sample.attrs);
      const ops::NodeView view{sample.operands, results, sample.attrs};
      if (kernel.supports && !kernel.supports(view)) continue;
      const double seconds = kernel.least_seconds(view);
      EXPECT_GE(seconds, 0) << kernel.op << " " << sample.name;
      EXPECT_LT(seconds, 1e-3) << kernel.op << " " << sample.name;
      ++asked;
    }
  }
  EXPECT_GE(asked, 50);
}

// bench/results/2026-11-19-nvidia-h200-small-kernels.json: 1024 positions of 32 heads took 0.12 ms by tensor cores, and
// with half the state, which these do not take, 18.6 ms.
TEST(KernelTableTest, PlainStateSpaceKernelsTakeMuchLongerThanTensorCores) {
  const auto seconds = [](int64_t sequence, int64_t state) {
    const ir::TensorType x{DType::bf16, {1, sequence, 32, 64}}, bc{DType::bf16, {1, sequence, 1, state}};
    return least_seconds("ssd_grad", {x, {DType::f32, {1, sequence, 32}}, {DType::f32, {32}}, bc, bc, x},
                         {{"chunk", int64_t{128}}});
  };
  EXPECT_NEAR(seconds(1024, 128), 116e-6, 20e-6);
  EXPECT_NEAR(seconds(1024, 64), 18.3e-3, 3e-3);
  EXPECT_NEAR(seconds(2048, 64), 2 * seconds(1024, 64), 1e-9) << "position after position";
}

TEST(KernelTableTest, AttentionTakesWhatItsLongestWalkTakes) {
  const auto seconds = [](int64_t width, const ir::Attrs& attrs) {
    const ir::TensorType q{DType::bf16, {1, 4096, 8, width}};
    return least_seconds("attention", {q, q, q}, attrs);
  };
  const ir::Attrs causal = {{"causal", int64_t{1}}, {"scale", 0.125}};
  const ir::Attrs window = {{"causal", int64_t{1}}, {"window", int64_t{512}}, {"scale", 0.125}};
  EXPECT_LT(seconds(64, window), 0.5 * seconds(64, causal)) << "a block of queries walks fewer keys";
  EXPECT_GT(seconds(32, causal), 5 * seconds(64, causal)) << "tensor cores do not take heads of 32";
}

}  // namespace
}  // namespace megacpp::runtime::cuda
