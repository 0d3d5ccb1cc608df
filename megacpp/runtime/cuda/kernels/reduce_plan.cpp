// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/cuda/kernels/reduce_plan.h"

#include <algorithm>

#include "megacpp/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kEnoughReduceBlocks = 1024;  // for all multiprocessors of any card, several times over
constexpr int64_t kFoldsPerThread = 8;         // at least, before a fold is worth cutting into parts

void append_reduce_dim(ReduceDims& dims, int64_t size, int64_t stride) {
  MEGACPP_CHECK(dims.dims < kMaxReduceDims) << "a reduction over more than " << kMaxReduceDims << " dimensions";
  dims.sizes[dims.dims] = static_cast<uint32_t>(size);
  dims.strides[dims.dims] = stride;
  ++dims.dims;
}

}  // namespace

ReducePlan plan_reduce(const ops::NodeView& view) {
  const ir::Shape& shape = view.operands[0].shape;
  const std::vector<int64_t>& folded = view.attrs.list("dims");
  const ir::Shape strides = ir::strides_of(shape);
  ReducePlan plan{.params = {}, .folds_rows = false, .blocks = 0};
  ReduceParams& params = plan.params;
  params.kept = params.folded = 1;
  bool was_folded = false;
  ReduceDims* last = nullptr;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool folds = std::find(folded.begin(), folded.end(), static_cast<int64_t>(d)) != folded.end();
    (folds ? params.folded : params.kept) *= static_cast<uint64_t>(shape[d]);
    if (shape[d] == 1) continue;
    if (last != nullptr && folds == was_folded) {  // goes on with the dimension before
      last->sizes[last->dims - 1] *= static_cast<uint32_t>(shape[d]);
      last->strides[last->dims - 1] = strides[d];
    } else {
      last = folds ? &params.folded_dims : &params.kept_dims;
      append_reduce_dim(*last, shape[d], strides[d]);
    }
    was_folded = folds;
  }
  plan.folds_rows = was_folded;
  const int64_t kept = static_cast<int64_t>(params.kept), folds = static_cast<int64_t>(params.folded);
  plan.blocks = plan.folds_rows ? kept : (kept + kReduceColumns - 1) / kReduceColumns;
  const int64_t at_once = plan.folds_rows ? kReduceColumns * kReduceRows : kReduceRows;
  params.parts = static_cast<int32_t>(std::clamp<int64_t>(
      std::min(kEnoughReduceBlocks / std::max<int64_t>(1, plan.blocks), folds / (at_once * kFoldsPerThread)), 1,
      kEnoughReduceBlocks));
  params.part = (params.folded + static_cast<uint64_t>(params.parts) - 1) / static_cast<uint64_t>(params.parts);
  return plan;
}

}  // namespace megacpp::runtime::cuda
