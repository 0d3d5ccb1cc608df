// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/tile_plan.h"

#include <algorithm>
#include <bit>

#include "megacpp/core/base/error.h"

namespace megacpp::runtime::cuda {
namespace {

using ops::TileInstruction;
using ops::TileOutput;

// Vectors that a lane should fold before its row is worth cutting into parts.
constexpr int64_t kVectorsPerLane = 8;
// Elements that a thread holds at once, of all inputs and outputs; more do not fit its registers.
constexpr int64_t kHeldElements = 96;

int64_t folded_dims_of(const ops::TileProgram& program) {
  int64_t folded = 0;
  for (const TileOutput& output : program.outputs) {
    if (output.kind == TileOutput::Kind::store) continue;
    MEGACPP_CHECK(folded == 0 || folded == output.reduced_dims) << "reductions of one program fold the same dimensions";
    folded = output.reduced_dims;
  }
  return folded;
}

// Of every input, by dimension of the iteration shape.
std::vector<std::vector<int64_t>> iteration_strides(const ops::TileProgram& program, const ops::NodeView& view) {
  const size_t rank = view.attrs.list("shape").size();
  std::vector<std::vector<int64_t>> strides;
  for (const TileInstruction& instruction : program.instructions) {
    if (instruction.kind != TileInstruction::Kind::input) continue;
    const ir::Shape own = ir::strides_of(view.operands[strides.size()].shape);
    std::vector<int64_t>& of_input = strides.emplace_back(rank, 0);
    for (size_t i = 0; i < instruction.dims.size(); ++i) of_input[static_cast<size_t>(instruction.dims[i])] = own[i];
  }
  return strides;
}

// Dimensions [begin, end) of the shape, those of size one left out.
TileDims merged_dims(const ir::Shape& shape, const std::vector<std::vector<int64_t>>& strides, size_t begin,
                     size_t end) {
  TileDims dims{.sizes = {}, .strides = std::vector<std::vector<int64_t>>(strides.size())};
  for (size_t d = begin; d < end; ++d) {
    if (shape[d] == 1) continue;
    bool merges = !dims.sizes.empty();
    for (size_t i = 0; merges && i < strides.size(); ++i) merges = dims.strides[i].back() == strides[i][d] * shape[d];
    if (merges) {
      dims.sizes.back() *= shape[d];
      for (size_t i = 0; i < strides.size(); ++i) dims.strides[i].back() = strides[i][d];
    } else {
      dims.sizes.push_back(shape[d]);
      for (size_t i = 0; i < strides.size(); ++i) dims.strides[i].push_back(strides[i][d]);
    }
  }
  return dims;
}

// Whether every access of `vector` elements is aligned and inside one row of every tensor.
bool vector_fits(const TilePlan& plan, int64_t vector) {
  if (plan.row.sizes.empty()) return vector == 1;
  if (plan.row.sizes.back() % vector != 0) return false;
  const auto all_divide = [vector](const std::vector<int64_t>& strides, size_t count) {
    return std::all_of(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(count),
                       [vector](int64_t stride) { return stride % vector == 0; });
  };
  for (size_t i = 0; i < plan.row.strides.size(); ++i)
    if (plan.inner_stride(i) == 1 && !(all_divide(plan.row.strides[i], plan.row.sizes.size() - 1) &&
                                       all_divide(plan.kept.strides[i], plan.kept.sizes.size())))
      return false;
  return true;
}

// Sixteen bytes of the narrowest tensor, as far as shapes and registers allow.
int64_t vector_of(const TilePlan& plan, const ops::NodeView& view) {
  int64_t narrowest = 4, held = 0;
  const auto count = [&](ir::DType dtype) {
    narrowest = std::min(narrowest, std::max<int64_t>(2, ir::dtype_bytes(dtype)));
    ++held;
  };
  for (size_t i = 0; i < view.operands.size(); ++i)
    if (plan.inner_stride(i) != 0) count(view.operands[i].dtype);
  for (size_t o = 0; o < view.results.size(); ++o)
    if (plan.program.outputs[o].kind == TileOutput::Kind::store) count(view.results[o].dtype);
  int64_t vector = 16 / narrowest;
  while (vector > 1 && (vector * held > kHeldElements || !vector_fits(plan, vector))) vector /= 2;
  return vector;
}

int64_t tile_quotient(int64_t count, int64_t by) { return (count + by - 1) / by; }

// Few long rows are cut into parts, so that all multiprocessors work; many short ones share blocks.
void spread_folds(TilePlan& plan) {
  const int64_t vectors = plan.row_vectors();
  plan.lanes = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(tile_quotient(vectors, 2), 1, kTileThreads))));
  if (plan.rows > 0)
    plan.parts = std::clamp<int64_t>(std::min(kEnoughBlocks / plan.rows, vectors / (kTileThreads * kVectorsPerLane)), 1,
                                     kEnoughBlocks);
  plan.part_vectors = tile_quotient(vectors, plan.parts);
}

}  // namespace

int64_t TilePlan::blocks() const {
  if (has_folds) return tile_quotient(rows * parts, kTileThreads / lanes);
  return tile_quotient(row_vectors(), kTileThreads);
}

TileSizes TilePlan::sizes() const {
  return {.has_folds = has_folds,
          .vectors = row_vectors(),
          .part_vectors = part_vectors,
          .parts = parts,
          .blocks = blocks()};
}

TilePlan plan_tiles(const ops::NodeView& view) {
  TilePlan plan{.program = ops::parse_tile_program(view.attrs.text("program"))};
  MEGACPP_CHECK(view.operands.size() <= ops::kMaxTileInputs && view.results.size() <= kMaxTileResults)
      << "a fused node has " << view.operands.size() << " operands and " << view.results.size() << " results";
  const ir::Shape& shape = view.attrs.list("shape");
  const auto strides = iteration_strides(plan.program, view);
  for (const TileOutput& output : plan.program.outputs) plan.folds += output.kind == TileOutput::Kind::store ? 0 : 1;
  plan.has_folds = plan.folds > 0;
  const size_t kept = plan.has_folds ? shape.size() - static_cast<size_t>(folded_dims_of(plan.program)) : 0;
  plan.kept = merged_dims(shape, strides, 0, kept);
  plan.row = merged_dims(shape, strides, kept, shape.size());
  plan.rows = ir::num_elements({shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(kept)});
  plan.row_elements = ir::num_elements({shape.begin() + static_cast<std::ptrdiff_t>(kept), shape.end()});
  plan.vector = vector_of(plan, view);
  if (plan.has_folds) spread_folds(plan);
  return plan;
}

}  // namespace megacpp::runtime::cuda
