// SPDX-License-Identifier: Apache-2.0
// Rows by index and its transpose: take reads rows of a table, scatter_add sums rows into one. There an index of as
// many as the table has rows leaves its row out: chips that have a part of the table each leave out what others have.
#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/partition_rule.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

int64_t checked_row(double id, int64_t rows) {
  const int64_t row = static_cast<int64_t>(id);
  MEGACPP_CHECK(row >= 0 && row <= rows) << "row " << row << " of a table of " << rows;
  return row;
}

Types infer_take(const Types& operands, const ir::Attrs&) {
  require_operands(operands.size() == 2 && operands[0].rank() == 2 && operands[1].dtype == DType::i32, "take", operands,
                   "table[v,h], i32 ids[...]");
  ir::Shape shape = operands[1].shape;
  shape.push_back(operands[0].dim(1));
  return {{operands[0].dtype, shape}};
}

Types infer_scatter_add(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 2 && operands[0].dtype == DType::i32 && is_float(operands[1].dtype),
                   "scatter_add", operands, "i32 ids[...], rows[...,h]");
  const ir::Shape& shape = attrs.list("shape");
  ir::Shape rows = operands[0].shape;
  rows.push_back(shape.size() == 2 ? shape[1] : -1);
  require_operands(operands[1].shape == rows, "scatter_add", operands, "rows[...,h] for ids[...] and shape=[v,h]");
  return {{operands[1].dtype, shape}};
}

Cotangents grad_take(const GradArgs& args) {
  const ir::Shape& table = args.builder.shape(args.operands[0]);
  return {args.builder.one("scatter_add", {args.operands[1], *args.cotangents[0]}, {{"shape", table}}), std::nullopt};
}

Cotangents grad_scatter_add(const GradArgs& args) {
  return {std::nullopt, args.builder.one("take", {*args.cotangents[0], args.operands[0]})};
}

void reference_take(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const Tensor& table = operands[0];
  const int64_t rows = table.type.dim(0), width = table.type.dim(1);
  for (int64_t i = 0; i < operands[1].elements(); ++i) {
    const int64_t row = checked_row(operands[1][i], rows);
    for (int64_t c = 0; c < width; ++c) results[0][i * width + c] = row == rows ? 0.0 : table[row * width + c];
  }
}

void reference_scatter_add(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t width = results[0].type.dim(1);
  const int64_t rows = results[0].type.dim(0);
  for (int64_t i = 0; i < operands[0].elements(); ++i) {
    const int64_t row = checked_row(operands[0][i], rows);
    if (row == rows) continue;
    for (int64_t c = 0; c < width; ++c) results[0][row * width + c] += operands[1][i * width + c];
  }
}

// Repeats some indices and skips others.
void spread_ids(Tensor& ids, int64_t rows) {
  for (int64_t i = 0; i < ids.elements(); ++i) ids[i] = static_cast<double>((i * i + 2 * i) % rows);
}

Sample take_sample(std::string name, int64_t rows, int64_t width, ir::Shape ids) {
  return {.name = std::move(name),
          .operands = {{DType::f32, {rows, width}}, {DType::i32, std::move(ids)}},
          .attrs = {},
          .fill = [rows](std::vector<Tensor>& operands) { spread_ids(operands[1], rows); }};
}

Sample scatter_sample(std::string name, int64_t rows, int64_t width, ir::Shape ids) {
  ir::Shape values = ids;
  values.push_back(width);
  return {.name = std::move(name),
          .operands = {{DType::i32, std::move(ids)}, {DType::f32, std::move(values)}},
          .attrs = {{"shape", ir::Shape{rows, width}}},
          .fill = [rows](std::vector<Tensor>& operands) { spread_ids(operands[0], rows); }};
}

// Every third index.
Sample with_none(Sample sample, size_t ids, int64_t rows) {
  sample.fill = [ids, rows](std::vector<Tensor>& operands) {
    spread_ids(operands[ids], rows);
    for (int64_t i = 0; i < operands[ids].elements(); i += 3) operands[ids][i] = static_cast<double>(rows);
  };
  return sample;
}

// Rows of a split table live on one chip each: i32[..] of the chip's own, past its last where another chip has the row.
ir::ValueId local_ids(Builder& b, ir::ValueId ids, int64_t rows, const ir::Axes& axes, const ir::Mesh& mesh) {
  const RuntimeRange range = runtime_range(b, rows, axes, mesh);
  const ir::Shape shape = b.shape(ids);
  const ir::ValueId relative = b.sub(ids, b.broadcast(range.first, shape, {}));
  const ir::ValueId zero = b.constant_like(0, relative);
  const ir::ValueId from_first = b.compare(relative, zero, "ge");
  const ir::ValueId count = b.broadcast(range.count, shape, {});
  const ir::ValueId before_end = b.compare(relative, count, "lt");
  const ir::ValueId never = b.compare(zero, zero, "ne");
  const ir::ValueId is_own = b.select(from_first, before_end, never);
  const int64_t chips = mesh.size(axes), most = (rows + chips - 1) / chips;
  return b.select(is_own, relative, b.constant_like(static_cast<double>(most), relative));
}

// Of rows that are elsewhere it gives zeros, so the result is partial over the table's axes.
std::vector<PartitionedResult> partition_take(PartitionContext& context) {
  const ir::Sharding table{.dims = context.sharding(0).dims};
  const ir::Axes rows = table.dims[0];
  if (rows.empty()) return {};
  Builder& b = context.builder();
  ir::Axes taken = rows;
  taken.insert(taken.end(), table.dims[1].begin(), table.dims[1].end());
  const ir::Sharding ids = without_axes(context.sharding(1), taken);
  const ir::ValueId local_table = context.local(0, table);
  const ir::ValueId own = local_ids(b, context.local(1, ids), context.view().operands[0].dim(0), rows, context.mesh());
  ir::Sharding result = ids;
  result.dims.push_back(table.dims[1]);
  result.unreduced = rows;
  std::sort(result.unreduced.begin(), result.unreduced.end());
  return {{b.one("take", {local_table, own}), result}};
}

int64_t tokens_of_chip(const PartitionContext& context, const ir::Sharding& values) {
  const ir::Shape tokens_and_width = ir::local_shape(context.view().operands[1].shape, values, context.mesh());
  return ir::num_elements(tokens_and_width) / tokens_and_width.back();
}

// Chips that are asked to split the rows may share the tokens already. Tokens are gathered over them as long as that
// moves no more than adding up the rows would; from there on chips keep partial sums of all rows they share. Where
// several axes split the tokens in turn (data, then expert), taking one away gathers them over those behind it too.
ir::Axes rows_to_split(const PartitionContext& context) {
  ir::Sharding values{.dims = context.sharding(1).dims};
  int64_t rows = context.view().results[0].dim(0);
  ir::Axes split;
  for (const ir::AxisId axis : context.requested()->dims[0]) {
    const ir::Sharding gathered = without_axes(values, {axis});
    if (values.splits(axis) && tokens_of_chip(context, gathered) > rows) break;
    const int64_t chips = context.mesh().size(axis);
    rows = (rows + chips - 1) / chips;
    split.push_back(axis);
    values = gathered;
  }
  return split;
}

std::vector<PartitionedResult> partition_scatter_add(PartitionContext& context) {
  if (context.requested() == nullptr) return {};
  const ir::Axes rows = rows_to_split(context);
  if (rows.empty()) return {};
  Builder& b = context.builder();
  const ir::Sharding values = without_axes(context.sharding(1), rows);
  ir::Sharding ids{.dims = {values.dims.begin(), values.dims.end() - 1}};
  const ir::ValueId all_ids = context.gathered(0, ids);
  ir::ValueId local_values = context.gathered(1, values);
  ir::Sharding result{.dims = {rows, values.dims.back()}};
  for (size_t d = 0; d < ids.dims.size(); ++d) {
    const SplitDim split{.dim = static_cast<int64_t>(d),
                         .size = context.view().operands[1].shape[d],
                         .axes = ids.dims[d],
                         .mesh = context.mesh()};
    local_values = fill_padding(b, local_values, split, 0.0);
    result.unreduced.insert(result.unreduced.end(), ids.dims[d].begin(), ids.dims[d].end());
  }
  std::sort(result.unreduced.begin(), result.unreduced.end());
  const ir::Shape& whole = context.view().results[0].shape;
  const ir::Shape shape = ir::local_shape(whole, {.dims = result.dims}, context.mesh());
  const ir::ValueId own = local_ids(b, all_ids, whole[0], rows, context.mesh());
  return {{b.one("scatter_add", {own, local_values}, {{"shape", shape}}), result}};
}

}  // namespace

OpDef take_def() {
  return {
      .name = "take",
      .doc = "rows of a table by index; zeros for the index past its last row",
      .infer = infer_take,
      .factors =
          [](const NodeView& view) {
            const std::string ids = numbered_names("i", view.operands[1].rank());
            return factors_from(view, "v h, " + ids + " -> " + ids + "h", "v");
          },
      .grad = grad_take,
      .cost = [](const NodeView&) { return Cost{}; },
      .reference = reference_take,
      .partition = partition_take,
      .stablehlo = [](HloWriter& w,
                      const HloArgs& args) { return HloResults{w.take_rows(args.operands[0], args.operands[1])}; },
      .samples =
          [] {
            return std::vector<Sample>{take_sample("matrix_of_ids", 7, 6, {4, 2}), take_sample("odd", 5, 3, {7}),
                                       take_sample("one_row", 1, 8, {2, 1, 2}), take_sample("scalar_id", 4, 2, {}),
                                       with_none(take_sample("none", 4, 8, {5, 3}), 1, 4)};
          },
  };
}

OpDef scatter_add_def() {
  return {
      .name = "scatter_add",
      .doc = "sums rows into the rows of a zero table by index; the index past the last row leaves its row out",
      .infer = infer_scatter_add,
      .factors =
          [](const NodeView& view) {
            const std::string ids = numbered_names("i", view.operands[0].rank());
            return factors_from(view, " " + ids + ", " + ids + "h -> v h", "v");
          },
      .grad = grad_scatter_add,
      .cost = [](const NodeView& view) { return Cost{static_cast<double>(view.operands[1].elements())}; },
      .reference = reference_scatter_add,
      .partition = partition_scatter_add,
      .stablehlo =
          [](HloWriter& w, const HloArgs& args) {
            return HloResults{w.add_rows(args.operands[1], args.operands[0], args.result().shape[0])};
          },
      .samples =
          [] {
            return std::vector<Sample>{scatter_sample("matrix_of_ids", 7, 6, {4, 2}), scatter_sample("odd", 5, 3, {7}),
                                       scatter_sample("all_to_one_row", 1, 8, {6}),
                                       with_none(scatter_sample("none", 4, 8, {5, 3}), 0, 4)};
          },
  };
}

}  // namespace megacpp::ops
