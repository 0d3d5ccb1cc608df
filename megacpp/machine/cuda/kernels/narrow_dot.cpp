// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/narrow_dot.h"

#include <algorithm>
#include <string>

#include "megacpp/machine/cuda/dot_plan.h"
#include "megacpp/machine/cuda/kernels/floats.h"
#include "megacpp/machine/cuda/kernels/narrow_dot_params.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kNarrowMostColumns = 16;
constexpr int64_t kNarrowMostShared = 200 << 10;  // bytes of a block: every card of this generation has more
constexpr int64_t kNarrowChunk = 256;             // elements of a row that a warp reads at once
constexpr int64_t kNarrowVector = 8;              // of bf16 in one access
constexpr uint32_t kNarrowBlocksPerSm = 2;

// The matrix product of dense sides where it is one: m, n and k are a single axis each.
struct NarrowAxes {
  DotAxis m, n, k;
};

std::optional<NarrowAxes> narrow_axes(const ops::NodeView& view) {
  const DotAxes axes = dot_axes(view);
  if (!axes.batch.empty() || axes.m.size() != 1 || axes.n.size() != 1 || axes.k.size() != 1) return std::nullopt;
  const NarrowAxes result{axes.m[0], axes.n[0], axes.k[0]};
  const bool is_result_dense = result.n.out == 1 && result.m.out == result.n.size;
  const bool is_empty = result.m.size == 0 || result.n.size == 0 || result.k.size == 0;
  return is_result_dense && !is_empty ? std::optional(result) : std::nullopt;
}

bool is_narrow_taken(const NarrowDot& dot) {
  if (dot.columns > kNarrowMostColumns || dot.rows > INT32_MAX || dot.width > INT32_MAX) return false;
  if (dot.kind == NarrowDot::Kind::rows)
    return dot.width % kNarrowVector == 0 && dot.shared_bytes() <= kNarrowMostShared;
  return dot.width % narrow_vector(static_cast<int>(dot.padded_columns())) == 0;
}

std::optional<NarrowDot> mixed_kind(const NarrowAxes& axes) {
  const auto& [m, n, k] = axes;
  if (n.rhs != 1 || k.rhs != n.size) return std::nullopt;
  if (k.lhs == 1 && m.lhs == k.size) return NarrowDot{NarrowDot::Kind::rows, m.size, k.size, n.size};
  if (m.lhs == 1 && k.lhs == m.size) return NarrowDot{NarrowDot::Kind::sums, k.size, m.size, n.size};
  return std::nullopt;
}

std::optional<NarrowDot> spread_kind(const NarrowAxes& axes, bool has_addend) {
  const auto& [m, n, k] = axes;
  if (k.lhs != 1 || m.lhs != k.size || k.rhs != 1 || n.rhs != k.size) return std::nullopt;
  return NarrowDot{NarrowDot::Kind::spread, m.size, n.size, k.size, has_addend};
}

NarrowDotParams narrow_params(const NarrowDot& dot) {
  NarrowDotParams params = {};
  params.rows = dot.rows;
  params.width = dot.width;
  params.columns = dot.columns;
  params.part_rows = dot.part_rows();
  params.parts = dot.parts();
  return params;
}

// A part of the rows and the columns of x that a block's threads take.
LaunchShape part_shape(const NarrowDot& dot) {
  const int64_t columns = kNarrowThreads * narrow_vector(static_cast<int>(dot.padded_columns()));
  return {.grid = {static_cast<uint32_t>(ceil_div(dot.width, columns)), static_cast<uint32_t>(dot.parts()), 1},
          .block = {kNarrowThreads, 1, 1}};
}

Function narrow_function(std::string_view name, const NarrowDot& dot, Toolbox& toolbox) {
  return toolbox.function("narrow_dot", "narrow_" + std::string(name) + "_" + std::to_string(dot.padded_columns()));
}

Prepared prepare_narrow_rows(const NarrowDot& dot, Toolbox& toolbox) {
  const int64_t rows_of_block = kNarrowThreads / dot.padded_columns();  // 32 sums a warp
  const uint32_t most = static_cast<uint32_t>(toolbox.properties().multiprocessors) * kNarrowBlocksPerSm;
  const uint32_t blocks = std::min(most, static_cast<uint32_t>(ceil_div(dot.rows, rows_of_block)));
  const LaunchShape shape{.grid = {blocks, 1, 1},
                          .block = {kNarrowThreads, 1, 1},
                          .shared_bytes = static_cast<uint32_t>(dot.shared_bytes())};
  return {[=, params = narrow_params(dot), function = narrow_function("rows", dot, toolbox)](const Launch& l) {
    NarrowDotParams bound = params;
    bound.wide = l.operands[0];
    bound.weights = l.operands[1];
    bound.narrow = l.results[0];
    launch(function, shape, l.stream, bound);
  }};
}

Prepared prepare_narrow_sums(const NarrowDot& dot, Toolbox& toolbox) {
  const Function sums = narrow_function("sums", dot, toolbox), total = narrow_function("total", dot, toolbox);
  const int64_t elements = dot.width * dot.padded_columns();
  const LaunchShape last{.grid = {static_cast<uint32_t>(ceil_div(elements, kNarrowSumColumns)), 1, 1},
                         .block = {kNarrowSumColumns, kNarrowSumRuns, 1}};
  return {[=, params = narrow_params(dot), shape = part_shape(dot)](const Launch& l) {
    NarrowDotParams bound = params;
    bound.wide = l.operands[0];
    bound.narrow = l.operands[1];
    bound.weights = l.results[0];
    bound.partial = l.workspace;
    launch(sums, shape, l.stream, bound);
    launch(total, last, l.stream, bound);
  }};
}

Prepared prepare_narrow_spread(const NarrowDot& dot, Toolbox& toolbox) {
  return {[=, params = narrow_params(dot), shape = part_shape(dot),
           function = narrow_function("spread", dot, toolbox)](const Launch& l) {
    NarrowDotParams bound = params;
    bound.narrow = l.operands[0];
    bound.weights = l.operands[1];
    if (dot.has_addend) bound.addend = l.operands[2];
    bound.wide = l.results[0];
    launch(function, shape, l.stream, bound);
  }};
}

}  // namespace

int64_t NarrowDot::part_rows() const {
  const int64_t even = ceil_div(ceil_div(rows, kNarrowMostParts), kNarrowTile) * kNarrowTile;
  return std::max<int64_t>(kNarrowPartRows, even);
}

int64_t NarrowDot::workspace_bytes() const {
  return kind == Kind::sums ? parts() * width * padded_columns() * ir::dtype_bytes(ir::DType::f32) : 0;
}

int64_t NarrowDot::shared_bytes() const {
  const int64_t padded_width = ceil_div(width, kNarrowChunk) * kNarrowChunk;
  return padded_width * padded_columns() * ir::dtype_bytes(ir::DType::f32);
}

std::optional<NarrowDot> narrow_dot(const ops::NodeView& view) {
  const ir::DType lhs = view.operands[0].dtype, rhs = view.operands[1].dtype, out = view.results[0].dtype;
  const std::optional<NarrowAxes> axes = narrow_axes(view);
  if (!axes || rhs != ir::DType::f32) return std::nullopt;
  std::optional<NarrowDot> dot;
  if (lhs == ir::DType::bf16 && out == ir::DType::f32) dot = mixed_kind(*axes);
  if (lhs == ir::DType::f32 && out == ir::DType::bf16) dot = spread_kind(*axes, view.operands.size() == 3);
  return dot && is_narrow_taken(*dot) ? dot : std::nullopt;
}

Prepared prepare_narrow_dot(const NarrowDot& dot, Toolbox& toolbox) {
  switch (dot.kind) {
    case NarrowDot::Kind::rows:
      return prepare_narrow_rows(dot, toolbox);
    case NarrowDot::Kind::sums:
      return prepare_narrow_sums(dot, toolbox);
    case NarrowDot::Kind::spread:
      break;
  }
  return prepare_narrow_spread(dot, toolbox);
}

}  // namespace megacpp::runtime::cuda
