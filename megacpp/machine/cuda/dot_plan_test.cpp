// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/dot_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/program/ops/sample_values.h"

namespace megacpp::runtime::cuda {
namespace {

using Dims = std::vector<int64_t>;

ops::Sample dot_of(ir::TensorType lhs, ir::TensorType rhs, Dims lhs_contract, Dims rhs_contract, Dims lhs_batch = {},
                   Dims rhs_batch = {}) {
  ops::Sample sample;
  sample.name = "dot";
  sample.operands = {std::move(lhs), std::move(rhs)};
  sample.attrs.set("lhs_contract", std::move(lhs_contract));
  sample.attrs.set("rhs_contract", std::move(rhs_contract));
  sample.attrs.set("lhs_batch", std::move(lhs_batch));
  sample.attrs.set("rhs_batch", std::move(rhs_batch));
  return sample;
}

ir::TensorType f32(ir::Shape shape) { return {ir::DType::f32, std::move(shape)}; }
ir::TensorType bf16(ir::Shape shape) { return {ir::DType::bf16, std::move(shape)}; }

DotPlan dot_plan_of(const ops::Sample& sample) {
  const ops::Types results = ops::op_def("dot").infer(sample.operands, sample.attrs);
  return plan_dot({sample.operands, results, sample.attrs});
}

// What the library would do, element by element.
void run_call(const DotCalls& plan, const DotCall& call, const std::vector<ops::Tensor>& operands,
              ops::Tensor& result) {
  const LtProblem& p = plan.problem;
  const int64_t side = ir::dtype_bytes(p.a.dtype), out = ir::dtype_bytes(p.d.dtype);
  for (int64_t batch = 0; batch < p.d.batch; ++batch)
    for (int64_t column = 0; column < p.d.columns; ++column)
      for (int64_t row = 0; row < p.d.rows; ++row) {
        const int64_t at = call.out / out + batch * p.d.batch_stride + column * p.d.leading + row;
        double sum = p.accumulates ? operands[2][at] : 0.0;
        for (int64_t k = 0; k < p.k(); ++k) {
          const int64_t a = p.transpose_a ? row * p.a.leading + k : k * p.a.leading + row;
          const int64_t b = p.transpose_b ? k * p.b.leading + column : column * p.b.leading + k;
          sum += operands[1][call.rhs / side + batch * p.a.batch_stride + a] *
                 operands[0][call.lhs / side + batch * p.b.batch_stride + b];
        }
        result[at] = sum;
      }
}

using Visit = std::function<void(const DotAxis&)>;

// Every index of the axes as one axis of size 1 whose strides are its offsets.
void for_each_offset(const std::vector<DotAxis>& axes, size_t from, DotAxis at, const Visit& visit) {
  if (from == axes.size()) return visit(at);
  for (int64_t i = 0; i < axes[from].size; ++i) {
    const DotAxis& axis = axes[from];
    for_each_offset(axes, from + 1, {1, at.lhs + i * axis.lhs, at.rhs + i * axis.rhs, at.out + i * axis.out}, visit);
  }
}

// What the plain kernel does.
void run_axes(const DotAxes& axes, const std::vector<ops::Tensor>& operands, ops::Tensor& result) {
  std::vector<DotAxis> outer = axes.batch;
  outer.insert(outer.end(), axes.m.begin(), axes.m.end());
  outer.insert(outer.end(), axes.n.begin(), axes.n.end());
  for_each_offset(outer, 0, {}, [&](const DotAxis& at) {
    double sum = operands.size() == 3 ? operands[2][at.out] : 0.0;
    for_each_offset(axes.k, 0, at, [&](const DotAxis& k) { sum += operands[0][k.lhs] * operands[1][k.rhs]; });
    result[at.out] = sum;
  });
}

void expect_near(const ops::Tensor& got, const ops::Tensor& wanted) {
  for (int64_t i = 0; i < wanted.elements(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-9) << "element " << i;
}

// Whether the library can express it; either way the axes are right.
bool expect_right(const ops::Sample& sample) {
  SCOPED_TRACE(sample.name + " " + ir::to_string(sample.operands[0]) + " " + ir::to_string(sample.operands[1]));
  const ops::OpDef& dot = ops::op_def("dot");
  const ops::Types results = dot.infer(sample.operands, sample.attrs);
  const std::vector<ops::Tensor> operands = ops::sample_operands(dot, sample);
  std::vector<ops::Tensor> wanted = {ops::Tensor::zeros(results[0])};
  dot.reference(operands, wanted, sample.attrs);
  const DotPlan plan = plan_dot({sample.operands, results, sample.attrs});
  ops::Tensor by_axes = ops::Tensor::zeros(results[0]);
  run_axes(plan.axes, operands, by_axes);
  expect_near(by_axes, wanted[0]);
  if (!plan.calls) return false;
  ops::Tensor by_calls = ops::Tensor::zeros(results[0]);
  for (const DotCall& call : plan.calls->calls) run_call(*plan.calls, call, operands, by_calls);
  expect_near(by_calls, wanted[0]);
  return true;
}

TEST(DotPlanTest, TheLibraryTakesEverySample) {
  for (const ops::Sample& sample : ops::op_def("dot").samples()) EXPECT_TRUE(expect_right(sample)) << sample.name;
}

TEST(DotPlanTest, AnyOrderOfDimensionsIsRightEitherWay) {
  // Two batch, two free and two contracted dimensions, in all orders on the left.
  const ir::Shape sizes = {2, 3, 2, 2, 3, 2};
  Dims order = {0, 1, 2, 3, 4, 5};
  int64_t by_library = 0;
  do {
    ir::Shape lhs(sizes.size());
    Dims place(sizes.size());
    for (size_t i = 0; i < order.size(); ++i) {
      lhs[i] = sizes[static_cast<size_t>(order[i])];
      place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    }
    const ops::Sample sample = dot_of(f32(lhs), f32({sizes[0], sizes[1], sizes[4], sizes[5], 4}), {place[4], place[5]},
                                      {2, 3}, {place[0], place[1]}, {0, 1});
    by_library += expect_right(sample) ? 1 : 0;
    if (HasFatalFailure()) return;
  } while (std::next_permutation(order.begin(), order.end()));
  // Of 720 orders, 120 have one contracted dimension right behind the other; then 24 end with them, and 48 with rows.
  EXPECT_EQ(by_library, 72);
}

TEST(DotPlanTest, ElementsThatAreStridedOnASideAreOurs) {
  EXPECT_FALSE(
      expect_right(dot_of(f32({2, 3, 4, 2}), f32({2, 4, 5, 2}), {2, 3}, {1, 3}, {0}, {0})));  // columns between
  EXPECT_FALSE(expect_right(dot_of(f32({3, 4, 2}), f32({4, 5, 2}), {1}, {0}, {2}, {2})));     // a batch innermost
  EXPECT_FALSE(expect_right(dot_of(f32({3, 4, 2}), f32({2, 4, 5}), {1, 2}, {1, 0})));  // contracted in another order
  EXPECT_TRUE(expect_right(dot_of(f32({3, 4, 2}), f32({4, 2, 5}), {2, 1}, {1, 0})));   // whose order is only named so
}

TEST(DotPlanTest, ModelsProductsAreOneCallEach) {
  const DotPlan forward = dot_plan_of(dot_of(bf16({8, 64, 32}), bf16({32, 48}), {2}, {0}));
  ASSERT_TRUE(forward.calls);
  EXPECT_EQ(forward.calls->calls.size(), 1U);
  const LtProblem& p = forward.calls->problem;
  EXPECT_EQ(to_string(p), "bf16 48x32/48*1+0@256 x bf16 32x512/32*1+0@256 -> bf16 48x512/48*1+0@256 in " +
                              std::to_string(32 * 48 * 512 * 4));
  const DotPlan input_gradient = dot_plan_of(dot_of(bf16({8, 64, 48}), bf16({32, 48}), {2}, {1}));
  ASSERT_TRUE(input_gradient.calls);
  EXPECT_TRUE(input_gradient.calls->problem.transpose_a);
  EXPECT_FALSE(input_gradient.calls->problem.transpose_b);
  const DotPlan weight_gradient = dot_plan_of(dot_of(bf16({8, 64, 32}), bf16({8, 64, 48}), {0, 1}, {0, 1}));
  ASSERT_TRUE(weight_gradient.calls);
  EXPECT_EQ(weight_gradient.calls->problem.k(), 512);
  EXPECT_FALSE(weight_gradient.calls->problem.transpose_a);
  EXPECT_TRUE(weight_gradient.calls->problem.transpose_b);
}

TEST(DotPlanTest, HeadsAreStridesAndSequencesCalls) {
  // [batch, time, heads, dim]: scores of each head.
  const DotPlan plan = dot_plan_of(dot_of(bf16({2, 16, 4, 8}), bf16({2, 24, 4, 8}), {3}, {3}, {0, 2}, {0, 2}));
  ASSERT_TRUE(plan.calls);
  EXPECT_EQ(plan.calls->problem.d.batch, 4);
  EXPECT_EQ(plan.calls->problem.b.leading, 32);
  EXPECT_EQ(plan.calls->problem.b.batch_stride, 8);
  ASSERT_EQ(plan.calls->calls.size(), 2U);
  EXPECT_EQ(plan.calls->calls[1].lhs, 16 * 4 * 8 * 2);
  EXPECT_EQ(plan.calls->calls[1].out, 4 * 16 * 24 * 2);
}

TEST(DotPlanTest, AddressesOfCallsAreAsAlignedAsTheyAreSaidToBe) {
  const DotPlan plan = dot_plan_of(dot_of(bf16({3, 5, 4, 7}), bf16({3, 5, 4, 7}), {3}, {3}, {0, 2}, {0, 2}));
  ASSERT_TRUE(plan.calls);
  EXPECT_EQ(plan.calls->problem.d.batch, 4);
  EXPECT_EQ(plan.calls->problem.b.alignment, 8);  // 5 * 4 * 7 elements of 2 bytes from one call to the next
  EXPECT_EQ(plan.calls->problem.d.alignment, 8);
}

TEST(DotPlanTest, ASingleElementContractsLikeAMatrix) {
  EXPECT_TRUE(expect_right(dot_of(f32({5}), f32({5}), {0}, {0})));
  EXPECT_TRUE(expect_right(dot_of(f32({5, 1}), f32({1, 4}), {1}, {0})));
  EXPECT_TRUE(expect_right(dot_of(f32({1, 6}), f32({6, 4}), {1}, {0})));
  EXPECT_TRUE(expect_right(dot_of(f32({3, 6}), f32({6, 1}), {1}, {0})));
  EXPECT_TRUE(expect_right(dot_of(f32({3}), f32({4}), {}, {})));
}

TEST(DotPlanTest, WhatTheLibraryHasNoDtypesForIsOurs) {
  ops::Sample narrow = dot_of(f32({4, 6}), f32({6, 2}), {1}, {0});
  narrow.attrs.set("dtype", std::string("bf16"));
  EXPECT_FALSE(dot_plan_of(narrow).calls);
  ops::Sample wide = dot_of(bf16({4, 6}), bf16({6, 2}), {1}, {0});
  wide.attrs.set("dtype", std::string("f32"));
  EXPECT_TRUE(dot_plan_of(wide).calls);
}

TEST(DotPlanTest, WorkspacesGrowWithTheResultUpToALimit) {
  const auto workspace = [](int64_t rows) {
    return dot_plan_of(dot_of(bf16({rows, 64}), bf16({64, 64}), {1}, {0})).calls->problem.workspace_bytes;
  };
  EXPECT_EQ(workspace(2), 2 * 64 * 4 * 32);
  EXPECT_EQ(workspace(1 << 16), 32 << 20);
  EXPECT_EQ(dot_plan_of(dot_of(f32({3, 1}), f32({1, 1}), {1}, {0})).calls->problem.workspace_bytes % kAlignment, 0);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
