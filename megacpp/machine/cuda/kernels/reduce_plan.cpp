// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/reduce_plan.h"

#include <algorithm>
#include <bit>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kEnoughReduceBlocks = 1024;  // for all multiprocessors of any card, several times over
constexpr int64_t kFoldsPerThread = 8;         // at least, before a fold is worth cutting into parts
constexpr int64_t kMostReduceLanes = 32;       // of a row of kept elements: 512 bytes

void append_reduce_dim(ReduceDims& dims, int64_t size, int64_t stride) {
  MEGACPP_CHECK(dims.dims < kMaxReduceDims) << "a reduction over more than " << kMaxReduceDims << " dimensions";
  dims.sizes[dims.dims] = static_cast<uint32_t>(size);
  dims.strides[dims.dims] = stride;
  ++dims.dims;
}

// Accesses of as many neighbours as sixteen bytes have, where whole runs of neighbours are made of them.
int64_t widen_accesses(ReduceDims& neighbours, ir::DType dtype) {
  const int64_t vector = 16 / ir::dtype_bytes(dtype);
  if (neighbours.dims == 0) return 1;
  uint32_t& size = neighbours.sizes[neighbours.dims - 1];
  if (size % vector != 0) return 1;
  size /= static_cast<uint32_t>(vector);
  neighbours.strides[neighbours.dims - 1] = vector;
  return vector;
}

int32_t reduce_lanes(int64_t accesses, int64_t most) {
  return static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(accesses, 1, most))));
}

// Few long folds are cut into parts, so that all multiprocessors work.
void spread_reduce(ReducePlan& plan) {
  ReduceParams& params = plan.params;
  const int64_t kept = static_cast<int64_t>(params.kept), folded = static_cast<int64_t>(params.folded);
  const int64_t columns = plan.folds_rows ? kept : kept / plan.vector;
  params.lanes =
      plan.folds_rows ? reduce_lanes((folded + 1) / 2, kReduceThreads) : reduce_lanes(columns, kMostReduceLanes);
  const int64_t beside = kReduceThreads / params.lanes;  // kept elements, or rows, of a block
  const int64_t columns_of_block = plan.folds_rows ? beside : params.lanes;
  const int64_t folded_at_once = plan.folds_rows ? params.lanes : beside;
  plan.blocks = (columns + columns_of_block - 1) / columns_of_block;
  params.parts = static_cast<int32_t>(std::clamp<int64_t>(
      std::min(kEnoughReduceBlocks / std::max<int64_t>(1, plan.blocks), folded / (folded_at_once * kFoldsPerThread)), 1,
      kEnoughReduceBlocks));
  params.part = (params.folded + static_cast<uint64_t>(params.parts) - 1) / static_cast<uint64_t>(params.parts);
}

}  // namespace

ReducePlan plan_reduce(const ops::NodeView& view) {
  const ir::Shape& shape = view.operands[0].shape;
  const std::vector<int64_t>& folded = view.attrs.list("dims");
  const ir::Shape strides = ir::strides_of(shape);
  ReducePlan plan{.params = {}, .folds_rows = false, .vector = 1, .blocks = 0};
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
  plan.vector = widen_accesses(plan.folds_rows ? params.folded_dims : params.kept_dims, view.operands[0].dtype);
  if (plan.folds_rows) params.folded /= static_cast<uint64_t>(plan.vector);
  spread_reduce(plan);
  return plan;
}

}  // namespace megacpp::runtime::cuda
