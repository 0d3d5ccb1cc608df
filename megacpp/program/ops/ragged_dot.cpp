// SPDX-License-Identifier: Apache-2.0
// Products of row groups with one matrix each. The rows of a chunk are grouped by expert: x[b,c,E,r,h] has r places for
// each of E experts, of which the first min(counts[b,c,e], r) are in use; packed x[b,c,r,h] holds one group behind the
// other, counts[b,c,e] rows each. Rows of nobody have a zero result and add nothing to weight gradients.
#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/expert_rows.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

// Rows and the counts of their chunks and experts.
bool are_rows_counts(const ir::TensorType& rows, const ir::TensorType& counts) {
  return (rows.rank() == 4 || rows.rank() == 5) && is_float(rows.dtype) && counts.rank() == 3 &&
         counts.dtype == DType::i32 && rows.dim(0) == counts.dim(0) && rows.dim(1) == counts.dim(1) &&
         (is_packed(rows) || rows.dim(2) == counts.dim(2));
}

ir::TensorType with_width(ir::TensorType rows, int64_t width) {
  rows.shape.back() = width;
  return rows;
}

Types infer_ragged_dot(const Types& operands, const ir::Attrs& attrs) {
  const bool transposed = attrs.flag("transpose_w");
  require_operands(operands.size() >= 3 && are_rows_counts(operands[0], operands[2]) && operands[1].rank() == 3 &&
                       operands[1].dtype == operands[0].dtype && operands[1].dim(0) == operands[2].dim(2) &&
                       operands[1].dim(transposed ? 2 : 1) == operands[0].dim(-1),
                   "ragged_dot", operands,
                   std::string("x[b,c,E,r,h] or [b,c,r,h], ") + (transposed ? "w[E,f,h]" : "w[E,h,f]") +
                       " of one dtype, i32 counts[b,c,E]");
  const ir::TensorType result = with_width(operands[0], operands[1].dim(transposed ? 1 : 2));
  require_operands(operands.size() == 3 || (operands.size() == 4 && operands[3] == result), "ragged_dot", operands,
                   "an addend like the result");
  return {result};
}

Types infer_ragged_dot_weight(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() >= 3 && are_rows_counts(operands[0], operands[2]) && operands[1].rank() >= 1 &&
                       operands[1] == with_width(operands[0], operands[1].dim(-1)),
                   "ragged_dot_weight", operands, "x[b,c,E,r,h], dy[b,c,E,r,f] of one dtype, i32 counts[b,c,E]");
  const int64_t h = operands[0].dim(-1);
  const int64_t f = operands[1].dim(-1);
  const int64_t experts = operands[2].dim(2);
  const ir::Shape shape = attrs.flag("transpose_w") ? ir::Shape{experts, f, h} : ir::Shape{experts, h, f};
  if (operands.size() == 3) {
    const bool chosen = attrs.has("dtype");
    return {{chosen ? require_dtype("ragged_dot_weight", attrs.text("dtype")) : operands[0].dtype, shape}};
  }
  require_operands(operands.size() == 4 && operands[3].shape == shape, "ragged_dot_weight", operands,
                   "an addend like the result");
  return {operands[3]};
}

Cotangents grad_ragged_dot(const GradArgs& args) {
  const int64_t transposed = args.attrs.integer("transpose_w", 0);
  const ir::ValueId dy = *args.cotangents[0];
  const ir::ValueId counts = args.operands[2];
  const ir::ValueId dx =
      args.builder.one("ragged_dot", {dy, args.operands[1], counts}, {{"transpose_w", 1 - transposed}});
  const ir::ValueId dw =
      args.builder.one("ragged_dot_weight", {args.operands[0], dy, counts}, {{"transpose_w", transposed}});
  Cotangents cotangents = {dx, dw, std::nullopt};
  if (args.operands.size() == 4) cotangents.push_back(dy);
  return cotangents;
}

// Calls body(expert, row) for each row that belongs to an expert; rows are counted over all chunks.
template <typename Body>
void for_each_row(const Tensor& counts, const ir::TensorType& rows, const Body& body) {
  const int64_t experts = counts.type.dim(2), chunks = rows.dim(0) * rows.dim(1);
  const int64_t in_chunk = rows.elements() / (chunks * rows.dim(-1));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    int64_t row = chunk * in_chunk;
    for (int64_t expert = 0; expert < experts; ++expert) {
      int64_t count = static_cast<int64_t>(counts[chunk * experts + expert]);
      if (!is_packed(rows)) {
        row = chunk * in_chunk + expert * rows.dim(3);
        count = std::min(count, rows.dim(3));
      }
      MEGACPP_CHECK(count >= 0 && row + count <= (chunk + 1) * in_chunk)
          << "expert " << expert << " ends at row " << row + count << " of chunk " << chunk;
      for (const int64_t end = row + count; row < end; ++row) body(expert, row);
    }
  }
}

// Weights [E,h,f], or [E,f,h] when transposed.
struct WeightShape {
  int64_t h, f;
  bool transposed;

  // Position of w[expert, i, j].
  int64_t index(int64_t expert, int64_t i, int64_t j) const {
    return expert * h * f + (transposed ? j * h + i : i * f + j);
  }
};

void reference_ragged_dot(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const int64_t h = operands[0].type.dim(-1);
  const int64_t f = results[0].type.dim(-1);
  const WeightShape weights{.h = h, .f = f, .transposed = attrs.flag("transpose_w")};
  if (operands.size() == 4) results[0].data = operands[3].data;
  for_each_row(operands[2], operands[0].type, [&](int64_t expert, int64_t row) {
    for (int64_t j = 0; j < f; ++j)
      for (int64_t i = 0; i < h; ++i)
        results[0][row * f + j] += operands[0][row * h + i] * operands[1][weights.index(expert, i, j)];
  });
}

void reference_ragged_dot_weight(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const int64_t h = operands[0].type.dim(-1);
  const int64_t f = operands[1].type.dim(-1);
  const WeightShape weights{.h = h, .f = f, .transposed = attrs.flag("transpose_w")};
  if (operands.size() == 4) results[0].data = operands[3].data;
  for_each_row(operands[2], operands[0].type, [&](int64_t expert, int64_t row) {
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < f; ++j)
        results[0][weights.index(expert, i, j)] += operands[0][row * h + i] * operands[1][row * f + j];
  });
}

Cost ragged_dot_cost(const NodeView& view) {
  // Both ops multiply every row, [h] or [f] wide, with a matrix of h x f.
  const ir::TensorType& weights = view.operands[1].rank() == 3 ? view.operands[1] : view.results[0];
  const int64_t rows = view.operands[0].elements() / view.operands[0].dim(-1);
  return Cost{2.0 * static_cast<double>(rows * weights.dim(1) * weights.dim(2))};
}

// Packed rows meet the matrix of every expert there (hlo_product).
Cost ragged_dot_cost_by_xla(const NodeView& view) {
  Cost cost = ragged_dot_cost(view);
  if (is_packed(view.operands[0])) cost.flops *= static_cast<double>(view.operands[2].dim(-1));
  return cost;
}

Factors ragged_dot_factors(const NodeView& view) {
  const auto [rows, replicated] = row_names(view.operands[0]);
  const std::string weights = view.attrs.flag("transpose_w") ? "x f h" : "x h f";
  if (view.operands.size() == 3)
    return factors_from(view, rows + "h, " + weights + ", b c x -> " + rows + "f", replicated);
  // With an addend, partial sums would add it once per part: the contraction stays whole.
  return factors_from(view, rows + "h, " + weights + ", b c x, " + rows + "f -> " + rows + "f", replicated + " h");
}

Factors weight_factors(const NodeView& view) {
  const auto [rows, replicated] = row_names(view.operands[0]);
  const std::string weights = view.attrs.flag("transpose_w") ? "x f h" : "x h f";
  // With an addend, partial sums would add it once per part: chunks stay whole.
  const std::string whole = view.operands.size() == 4 ? " b c" : "";
  return factors_from(view, rows + "h, " + rows + "f, b c x, " + weights + " -> " + weights, replicated + whole);
}

Linearity linear_in_both(const NodeView& view) {
  if (view.operands.size() == 4) return {};  // an addend would be added once per part
  return {Linearity::Kind::each, {0, 1}};
}

std::function<void(std::vector<Tensor>&)> fill_counts(std::vector<double> counts) {
  return [counts = std::move(counts)](std::vector<Tensor>& operands) { operands[2].data = counts; };
}

// x, then weights or dy, counts, and an addend like the result where asked for.
struct Shapes {
  ir::Shape rows, second;  // the sample's first two operands
  int64_t experts;
  std::vector<double> counts;
  ir::Shape addend = {};
};

Sample ragged_dot_sample(std::string name, const Shapes& shapes, int64_t transpose_w) {
  Types operands = {{DType::f32, shapes.rows},
                    {DType::f32, shapes.second},
                    {DType::i32, {shapes.rows[0], shapes.rows[1], shapes.experts}}};
  if (!shapes.addend.empty()) operands.push_back({DType::f32, shapes.addend});
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = {{"transpose_w", transpose_w}},
          .fill = fill_counts(shapes.counts)};
}

std::vector<double> packed_counts() { return {3, 4, 1, 0, 2, 4}; }  // of 8 rows, the last two unused
std::vector<double> placed_counts() { return {2, 0, 5, 3, 1, 3, 0, 0, 3, 3, 3, 3, 0, 0, 0, 1}; }  // some beyond 3

std::vector<Sample> dot_samples() {
  return {
      ragged_dot_sample("packed", {{2, 1, 8, 4}, {3, 4, 6}, 3, packed_counts()}, 0),
      ragged_dot_sample("packed_transposed", {{1, 2, 8, 4}, {3, 2, 4}, 3, packed_counts()}, 1),
      ragged_dot_sample("places", {{2, 2, 4, 3, 4}, {4, 4, 2}, 4, placed_counts()}, 0),
      ragged_dot_sample("places_transposed", {{4, 1, 4, 3, 2}, {4, 6, 2}, 4, placed_counts()}, 1),
      ragged_dot_sample("odd_one_expert", {{1, 1, 2, 5, 3}, {2, 3, 7}, 2, {0, 5}}, 0),
      ragged_dot_sample("packed_accumulated", {{2, 1, 8, 4}, {3, 4, 6}, 3, packed_counts(), {2, 1, 8, 6}}, 0),
      ragged_dot_sample("places_accumulated", {{4, 1, 4, 3, 2}, {4, 6, 2}, 4, placed_counts(), {4, 1, 4, 3, 6}}, 1),
      ragged_dot_sample("wide_accumulated", {{1, 1, 2, 5, 8}, {2, 8, 16}, 2, {3, 5}, {1, 1, 2, 5, 16}}, 0),
  };
}

std::vector<Sample> weight_samples() {
  return {
      ragged_dot_sample("packed", {{2, 1, 8, 4}, {2, 1, 8, 6}, 3, packed_counts()}, 0),
      ragged_dot_sample("packed_transposed", {{1, 2, 8, 4}, {1, 2, 8, 2}, 3, packed_counts()}, 1),
      ragged_dot_sample("places", {{2, 2, 4, 3, 4}, {2, 2, 4, 3, 2}, 4, placed_counts()}, 0),
      ragged_dot_sample("accumulated", {{4, 1, 4, 3, 4}, {4, 1, 4, 3, 6}, 4, placed_counts(), {4, 6, 4}}, 1),
      ragged_dot_sample("odd_one_expert", {{1, 1, 2, 5, 3}, {1, 1, 2, 5, 7}, 2, {0, 5}}, 0),
  };
}

// ---- StableHLO ----

// x[b,c,E,r,h] with zeros in the rows beyond counts[b,c,E].
HloValue used_rows(HloWriter& w, const HloValue& x, const HloValue& counts) {
  const HloType places{"i32", x.type.shape};
  const HloValue row = w.iota(places, 3);
  const HloValue is_used = w.compare(row, w.broadcast(counts, x.type.shape, {0, 1, 2}), "LT");
  return w.select(is_used, x, w.constant(0, x.type));
}

// Packed x[b,c,r,h] with zeros in the rows that are not of this expert.
HloValue rows_of_expert(HloWriter& w, const HloValue& x, const HloValue& ends, const HloValue& counts, int64_t expert) {
  const HloType places{"i32", x.type.shape};
  const auto of_expert = [&](const HloValue& per_expert) {
    const HloValue own = w.slice(per_expert, 2, expert, 1);
    return w.broadcast(w.reshape(own, {own.type.shape[0], own.type.shape[1]}), x.type.shape, {0, 1});
  };
  const HloValue row = w.iota(places, 2), end = of_expert(ends);
  const HloValue from_first = w.compare(row, w.binary("subtract", end, of_expert(counts)), "GE");
  const HloValue is_own = w.binary("and", from_first, w.compare(row, end, "LT"));
  return w.select(is_own, x, w.constant(0, x.type));
}

HloValue matrix_of_expert(HloWriter& w, const HloValue& matrices, int64_t expert) {
  return w.reshape(w.slice(matrices, 0, expert, 1), {matrices.type.shape[1], matrices.type.shape[2]});
}

// XLA has no grouped product on every device. With the same number of rows for each expert it is a batched one; packed
// rows meet every expert's matrix, zeros where they are not its own.
HloValue hlo_product(HloWriter& w, const HloArgs& args) {
  const HloValue &x = args.operands[0], &matrices = args.operands[1], &counts = args.operands[2];
  const int64_t summed = args.attrs().flag("transpose_w") ? 2 : 1;
  if (!is_packed(args.view.operands[0])) {
    const HloValue product = w.dot(used_rows(w, x, counts), matrices, {{2}, {0}, {4}, {summed}}, args.result().element);
    return w.transpose(product, {1, 2, 0, 3, 4});  // [E,b,c,r,f]
  }
  const HloValue ends = w.cumsum(counts, 2, false);
  HloValue sum = w.constant(0, args.result());
  for (int64_t e = 0; e < matrices.type.shape[0]; ++e) {
    const HloValue own = rows_of_expert(w, x, ends, counts, e);
    const HloValue product =
        w.dot(own, matrix_of_expert(w, matrices, e), {{}, {}, {3}, {summed - 1}}, args.result().element);
    sum = w.binary("add", sum, product);
  }
  return sum;
}

HloResults hlo_ragged_dot(HloWriter& w, const HloArgs& args) {
  const HloValue product = hlo_product(w, args);
  return {args.operands.size() == 4 ? w.binary("add", args.operands[3], product) : product};
}

HloResults hlo_ragged_dot_weight(HloWriter& w, const HloArgs& args) {
  const HloValue &x = args.operands[0], &dy = args.operands[1], &counts = args.operands[2];
  const bool transposed = args.attrs().flag("transpose_w");
  const std::string element = args.result().element;
  HloValue grad;
  if (!is_packed(args.view.operands[0])) {
    const HloValue own = used_rows(w, x, counts);
    grad = w.dot(transposed ? dy : own, transposed ? own : dy, {{2}, {2}, {0, 1, 3}, {0, 1, 3}}, element);
  } else {
    const HloValue ends = w.cumsum(counts, 2, false);
    std::vector<HloValue> parts;
    for (int64_t e = 0; e < counts.type.shape[2]; ++e) {
      const HloValue own = rows_of_expert(w, x, ends, counts, e);
      const HloValue part =
          w.dot(transposed ? dy : own, transposed ? own : dy, {{}, {}, {0, 1, 2}, {0, 1, 2}}, element);
      parts.push_back(w.reshape(part, {1, part.type.shape[0], part.type.shape[1]}));
    }
    grad = w.concatenate(parts, 0);
  }
  return {args.operands.size() == 4 ? w.binary("add", args.operands[3], grad) : grad};
}

}  // namespace

OpDef ragged_dot_def() {
  return {
      .name = "ragged_dot",
      .doc =
          "product of each expert's rows with its matrix; the first counts[b,c,e] rows of an expert are in use, others "
          "zero; an optional fourth operand is added",
      .infer = infer_ragged_dot,
      .factors = ragged_dot_factors,
      .grad = grad_ragged_dot,
      .cost = ragged_dot_cost,
      .work = Work::product,
      .cost_by_xla = ragged_dot_cost_by_xla,
      .reference = reference_ragged_dot,
      .linear = linear_in_both,
      .may_alias = 3,
      .addend = 3,
      .stablehlo = hlo_ragged_dot,
      .samples = dot_samples,
  };
}

OpDef ragged_dot_weight_def() {
  return {
      .name = "ragged_dot_weight",
      .doc = "gradient of ragged_dot for its matrices; an optional fourth operand is added",
      .infer = infer_ragged_dot_weight,
      .factors = weight_factors,
      .no_grad = "made by autodiff; second derivatives are not taken",
      .cost = ragged_dot_cost,
      .work = Work::product,
      .cost_by_xla = ragged_dot_cost_by_xla,
      .reference = reference_ragged_dot_weight,
      .linear = linear_in_both,
      .may_alias = 3,
      .addend = 3,
      .chooses_result_dtype = true,
      .stablehlo = hlo_ragged_dot_weight,
      .samples = weight_samples,
  };
}

}  // namespace megacpp::ops
