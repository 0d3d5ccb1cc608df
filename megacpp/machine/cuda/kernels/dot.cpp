// SPDX-License-Identifier: Apache-2.0
// General products by cuBLASLt where it can express them (dot_plan.h) and has an algorithm, else by kernels of our own:
// one for a few contracted elements, and one for all others.
#include <memory>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/algorithm_search.h"
#include "megacpp/machine/cuda/cublaslt.h"
#include "megacpp/machine/cuda/dot_plan.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/dot_plain_params.h"
#include "megacpp/machine/cuda/kernels/narrow_dot.h"
#include "megacpp/machine/cuda/required_kernels.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

int64_t dot_workspace(const ops::NodeView& view) {
  const DotPlan plan = plan_dot(view);
  return plan.calls ? plan.calls->problem.workspace_bytes : 0;
}

void add_required_dot(const ops::NodeView& view, RequiredKernels& required) {
  if (const DotPlan plan = plan_dot(view); plan.calls) required.products.push_back(plan.calls->problem);
}

// Nothing where the library has no algorithm.
std::optional<Prepared> prepare_library_dot(const DotCalls& plan, Toolbox& toolbox) {
  // A std::function is copied, and the product is not.
  const auto product = std::make_shared<const LtProduct>(toolbox.products(), plan.problem);
  const std::optional<LtChoice> choice = choose_algorithm(toolbox, *product);
  if (!choice) return std::nullopt;
  const auto run = [product, algorithm = choice->algorithm, calls = plan.calls](const Launch& launch) {
    const Address result = launch.results[0];
    const Address addend = launch.operands.size() == 3 ? launch.operands[2] : result;
    for (const DotCall& call : calls)
      product->run(algorithm,
                   {.a = launch.operands[1] + static_cast<Address>(call.rhs),
                    .b = launch.operands[0] + static_cast<Address>(call.lhs),
                    .d = result + static_cast<Address>(call.out),
                    .addend = addend + static_cast<Address>(call.out),
                    .workspace = launch.workspace},
                   launch.stream);
  };
  return Prepared{run};
}

PlainAxes plain_axes(const std::vector<DotAxis>& axes) {
  MEGACPP_CHECK(axes.size() <= static_cast<size_t>(kDotPlainMostAxes)) << "a product over " << axes.size() << " axes";
  PlainAxes result = {};
  result.count = static_cast<int32_t>(axes.size());
  result.size = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    result.axes[i] = {axes[i].size, axes[i].lhs, axes[i].rhs, axes[i].out};
    result.size *= axes[i].size;
  }
  return result;
}

uint32_t plain_blocks(const DotPlainParams& params) {
  const auto tiles = [](int64_t size) { return (size + kDotPlainTile - 1) / kDotPlainTile; };
  const int64_t blocks = params.batch.size * tiles(params.m.size) * tiles(params.n.size);
  MEGACPP_CHECK(blocks <= INT32_MAX) << "a product of " << blocks << " blocks";
  return static_cast<uint32_t>(blocks);
}

Prepared prepare_plain_dot(const ops::NodeView& view, const DotAxes& axes, Toolbox& toolbox) {
  const ir::DType side = view.operands[0].dtype, out = view.results[0].dtype;
  MEGACPP_CHECK(ir::is_float(side) && ir::is_float(out)) << "a product of " << ir::dtype_name(side);
  DotPlainParams params = {};
  params.batch = plain_axes(axes.batch);
  params.m = plain_axes(axes.m);
  params.n = plain_axes(axes.n);
  params.k = plain_axes(axes.k);
  const std::string name = "dot_plain_" + std::string(ir::dtype_name(side)) + "_" + std::string(ir::dtype_name(out));
  const uint32_t blocks = plain_blocks(params);
  return {[params, blocks, function = toolbox.function("dot_plain", name)](const Launch& launch) {
    DotPlainParams bound = params;
    bound.lhs = reinterpret_cast<const void*>(launch.operands[0]);
    bound.rhs = reinterpret_cast<const void*>(launch.operands[1]);
    if (launch.operands.size() == 3) bound.addend = reinterpret_cast<const void*>(launch.operands[2]);
    bound.result = reinterpret_cast<void*>(launch.results[0]);
    cuda::launch(function, {.grid = {blocks, 1, 1}, .block = {kDotPlainThreads, 1, 1}}, launch.stream, bound);
  }};
}

Prepared prepare_dot(const ops::NodeView& view, Toolbox& toolbox) {
  if (const std::optional<NarrowDot> narrow = narrow_dot(view)) return prepare_narrow_dot(*narrow, toolbox);
  const DotPlan plan = plan_dot(view);
  if (plan.calls)
    if (std::optional<Prepared> prepared = prepare_library_dot(*plan.calls, toolbox)) return std::move(*prepared);
  return prepare_plain_dot(view, plan.axes, toolbox);
}

// The library's products in f32 walk the inner dimension by plain arithmetic.
double dot_least_seconds(const ops::NodeView& view) {
  if (view.operands[0].dtype != ir::DType::f32) return 3.5e-6;
  double inner = 1;
  for (const DotAxis& axis : dot_axes(view).k) inner *= static_cast<double>(axis.size);
  return 5e-6 + inner * 8e-9;
}

}  // namespace

Kernel dot_kernel() {
  return {.op = "dot",
          .workspace_bytes = dot_workspace,
          .least_seconds = dot_least_seconds,
          .add_required = add_required_dot,
          .prepare = prepare_dot};
}

}  // namespace megacpp::runtime::cuda
