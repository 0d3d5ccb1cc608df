// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/rms_norm_plan.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

#include "megacpp/machine/cuda/kernels/rms_norm_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kMostNormLanes = 512;
constexpr int64_t kMostNormGroups = 65'535;  // block rows of a grid
// Threads of the gradient that run at once on an H200: its sums over rows are as many as its blocks.
constexpr int64_t kNormGradThreads = 132 * 8 * kRmsNormThreads;
constexpr int64_t kNormGradThreadsOfEight = 132 * 2 * kRmsNormThreads;  // with as much shared memory as rows take

// How lanes keep a group of so many vectors: a warp has a whole row where that fits.
struct NormSpread {
  int64_t most_vectors, held, least_lanes;
  std::string_view name;
};
constexpr NormSpread kNormSpreads[] = {
    {64, 2, 1, "two"}, {8 * kRmsNormThreads, 8, 32, "eight"}, {std::numeric_limits<int64_t>::max(), 4, 1, "four"}};
constexpr NormSpread kSingleNormSpread = {std::numeric_limits<int64_t>::max(), 8, 1, "single"};

NormSpread norm_spread(int64_t vectors, int64_t vector) {
  if (vector == 1) return kSingleNormSpread;
  return *std::find_if(std::begin(kNormSpreads), std::end(kNormSpreads),
                       [vectors](const NormSpread& spread) { return vectors <= spread.most_vectors; });
}

}  // namespace

int64_t RmsNormPlan::grad_blocks() const {
  const int64_t at_once = (spread == "eight" ? kNormGradThreadsOfEight : kNormGradThreads) / threads;
  return std::clamp<int64_t>(row_blocks(), 1, std::max<int64_t>(1, at_once / groups));
}

int64_t RmsNormPlan::grad_shared_bytes() const { return spread == "eight" ? kRmsNormStagedBytes : 0; }

RmsNormPlan plan_rms_norm(const ops::NodeView& view) {
  const ir::TensorType& x = view.operands[0];
  const int64_t size = view.attrs.integer("group_size", 0), width = x.dim(-1);
  const int64_t group = size == 0 ? width : size;
  const int64_t wide = 16 / ir::dtype_bytes(x.dtype);
  const int64_t vector = group % wide == 0 ? wide : 1, vectors = group / vector;
  const NormSpread spread = norm_spread(vectors, vector);
  const int64_t lanes = std::clamp((vectors + spread.held - 1) / spread.held, spread.least_lanes, kMostNormLanes);
  RmsNormPlan plan{.rows = x.elements() / width,
                   .width = width,
                   .group = group,
                   .groups = width / group,
                   .vector = vector,
                   .held = spread.held,
                   .lanes = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(lanes))),
                   .threads = kRmsNormThreads,
                   .spread = spread.name};
  plan.threads = std::max(plan.threads, plan.lanes);
  return plan;
}

base::Decision supports_rms_norm(const ops::NodeView& view) {
  const RmsNormPlan plan = plan_rms_norm(view);
  return plan.groups <= kMostNormGroups ? base::Decision::yes() : base::Decision::no("more than 65535 groups in a row");
}

base::Decision supports_rms_norm_grad(const ops::NodeView& view) {
  const RmsNormPlan plan = plan_rms_norm(view);
  const int64_t most = plan.lanes * plan.held * plan.vector;
  if (plan.group > most)
    return base::Decision::no("groups of " + std::to_string(plan.group) + " elements; registers keep " +
                              std::to_string(most));
  return supports_rms_norm(view);
}

}  // namespace megacpp::runtime::cuda
