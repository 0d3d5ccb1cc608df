// SPDX-License-Identifier: Apache-2.0
// Products of row groups with one matrix each. The rows of x are grouped by expert: one group behind the other,
// counts[e] rows each, or, with the attribute capacity > 0, expert e owns rows e * capacity onwards and uses the first
// min(counts[e], capacity) of them. Rows of nobody have a zero result and add nothing to weight gradients.
#include <algorithm>

#include "megacpp/base/error.h"
#include "megacpp/ops/builder.h"
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

bool are_three(const Types& operands, int64_t second_rank) {
  return operands.size() >= 3 && operands[0].rank() == 2 && operands[1].rank() == second_rank &&
         operands[2].rank() == 1 && is_float(operands[0].dtype) && operands[0].dtype == operands[1].dtype &&
         operands[2].dtype == DType::i32;
}

Types infer_ragged_dot(const Types& operands, const ir::Attrs& attrs) {
  const bool transposed = attrs.flag("transpose_w");
  require_operands(
      operands.size() == 3 && are_three(operands, 3) && operands[1].dim(0) == operands[2].dim(0) &&
          operands[1].dim(transposed ? 2 : 1) == operands[0].dim(1),
      "ragged_dot", operands,
      transposed ? "x[M,h], w[E,f,h] of one dtype, i32 counts[E]" : "x[M,h], w[E,h,f] of one dtype, i32 counts[E]");
  return {{operands[0].dtype, {operands[0].dim(0), operands[1].dim(transposed ? 1 : 2)}}};
}

Types infer_ragged_dot_weight(const Types& operands, const ir::Attrs& attrs) {
  require_operands(are_three(operands, 2) && operands[0].dim(0) == operands[1].dim(0), "ragged_dot_weight", operands,
                   "x[M,h], dy[M,f] of one dtype, i32 counts[E]");
  const int64_t h = operands[0].dim(1);
  const int64_t f = operands[1].dim(1);
  const int64_t experts = operands[2].dim(0);
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
  const int64_t capacity = args.attrs.integer("capacity", 0);
  return {args.builder.one("ragged_dot", {dy, args.operands[1], counts},
                           {{"transpose_w", 1 - transposed}, {"capacity", capacity}}),
          args.builder.one("ragged_dot_weight", {args.operands[0], dy, counts},
                           {{"transpose_w", transposed}, {"capacity", capacity}}),
          std::nullopt};
}

// Calls body(expert, row) for each row that belongs to an expert.
template <typename Body>
void for_each_row(const Tensor& counts, int64_t rows, const ir::Attrs& attrs, const Body& body) {
  const int64_t capacity = attrs.integer("capacity", 0);
  int64_t row = 0;
  for (int64_t expert = 0; expert < counts.elements(); ++expert) {
    if (capacity > 0) row = expert * capacity;
    const int64_t count = static_cast<int64_t>(counts[expert]);
    const int64_t end = row + (capacity > 0 ? std::min(count, capacity) : count);
    MEGACPP_CHECK(end >= row && end <= rows) << "expert " << expert << " ends at row " << end << " of " << rows;
    for (; row < end; ++row) body(expert, row);
  }
}

// Position of w[expert, i, j] in [E,h,f], or in [E,f,h] when transposed.
int64_t weight_index(int64_t expert, int64_t i, int64_t j, int64_t h, int64_t f, bool transposed) {
  return expert * h * f + (transposed ? j * h + i : i * f + j);
}

void reference_ragged_dot(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const int64_t h = operands[0].type.dim(1);
  const int64_t f = results[0].type.dim(1);
  const bool transposed = attrs.flag("transpose_w");
  for_each_row(operands[2], operands[0].type.dim(0), attrs, [&](int64_t expert, int64_t row) {
    for (int64_t j = 0; j < f; ++j)
      for (int64_t i = 0; i < h; ++i)
        results[0][row * f + j] += operands[0][row * h + i] * operands[1][weight_index(expert, i, j, h, f, transposed)];
  });
}

void reference_ragged_dot_weight(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const int64_t h = operands[0].type.dim(1);
  const int64_t f = operands[1].type.dim(1);
  const bool transposed = attrs.flag("transpose_w");
  if (operands.size() == 4) results[0].data = operands[3].data;
  for_each_row(operands[2], operands[0].type.dim(0), attrs, [&](int64_t expert, int64_t row) {
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < f; ++j)
        results[0][weight_index(expert, i, j, h, f, transposed)] += operands[0][row * h + i] * operands[1][row * f + j];
  });
}

Cost cost_of(const NodeView& view) {
  // Both ops multiply every row, [h] or [f] wide, with a matrix of h x f.
  const ir::TensorType& weights = view.operands[1].rank() == 3 ? view.operands[1] : view.results[0];
  return Cost{2.0 * static_cast<double>(view.operands[0].dim(0) * weights.dim(1) * weights.dim(2))};
}

// With capacity, rows are experts times places: experts may be split, places not. Packed rows cannot be split at all.
Factors dot_factors(const NodeView& view) {
  const bool transposed = view.attrs.flag("transpose_w");
  if (view.attrs.integer("capacity", 0) > 0)
    return factors_from(view, transposed ? "(x c) h, x f h, x -> (x c) f" : "(x c) h, x h f, x -> (x c) f", "c");
  return factors_from(view, transposed ? "m h, x f h, x -> m f" : "m h, x h f, x -> m f", "m x");
}

Factors weight_factors(const NodeView& view) {
  const std::string result = view.attrs.flag("transpose_w") ? "x f h" : "x h f";
  const bool placed = view.attrs.integer("capacity", 0) > 0;
  const std::string rows = placed ? "(x c)" : "m";
  return factors_from(view, rows + " h, " + rows + " f, x, " + result + " -> " + result, placed ? "c" : "m x");
}

std::function<void(std::vector<Tensor>&)> fill_counts(std::vector<double> counts) {
  return [counts = std::move(counts)](std::vector<Tensor>& operands) { operands[2].data = counts; };
}

std::vector<Sample> dot_samples() {
  return {
      {.name = "every_row",
       .operands = {{DType::f32, {8, 4}}, {DType::f32, {3, 4, 6}}, {DType::i32, {3}}},
       .attrs = {{"transpose_w", 0}},
       .fill = fill_counts({3, 4, 1})},
      {.name = "transposed_with_tail",
       .operands = {{DType::f32, {9, 4}}, {DType::f32, {4, 2, 4}}, {DType::i32, {4}}},
       .attrs = {{"transpose_w", 1}},
       .fill = fill_counts({2, 0, 5, 0})},
      {.name = "capacity",
       .operands = {{DType::f32, {12, 4}}, {DType::f32, {4, 4, 2}}, {DType::i32, {4}}},
       .attrs = {{"transpose_w", 0}, {"capacity", 3}},
       .fill = fill_counts({2, 0, 5, 3})},
      {.name = "odd_one_expert",
       .operands = {{DType::f32, {5, 3}}, {DType::f32, {2, 3, 7}}, {DType::i32, {2}}},
       .attrs = {{"transpose_w", 0}},
       .fill = fill_counts({0, 5})},
  };
}

std::vector<Sample> weight_samples() {
  return {
      {.name = "every_row",
       .operands = {{DType::f32, {8, 4}}, {DType::f32, {8, 6}}, {DType::i32, {3}}},
       .attrs = {{"transpose_w", 0}},
       .fill = fill_counts({3, 4, 1})},
      {.name = "transposed_with_tail",
       .operands = {{DType::f32, {9, 4}}, {DType::f32, {9, 2}}, {DType::i32, {4}}},
       .attrs = {{"transpose_w", 1}},
       .fill = fill_counts({2, 0, 5, 0})},
      {.name = "capacity",
       .operands = {{DType::f32, {12, 4}}, {DType::f32, {12, 2}}, {DType::i32, {4}}},
       .attrs = {{"transpose_w", 0}, {"capacity", 3}},
       .fill = fill_counts({2, 0, 5, 3})},
      {.name = "accumulated",
       .operands = {{DType::f32, {8, 4}}, {DType::f32, {8, 6}}, {DType::i32, {3}}, {DType::f32, {3, 6, 4}}},
       .attrs = {{"transpose_w", 1}},
       .fill = fill_counts({3, 0, 4})},
      {.name = "odd_one_expert",
       .operands = {{DType::f32, {5, 3}}, {DType::f32, {5, 7}}, {DType::i32, {2}}},
       .attrs = {{"transpose_w", 0}},
       .fill = fill_counts({0, 5})},
  };
}

}  // namespace

OpDef ragged_dot_def() {
  return {
      .name = "ragged_dot",
      .doc = "product of each expert's rows with its matrix; rows are grouped by expert, counts[e] each",
      .infer = infer_ragged_dot,
      .factors = dot_factors,
      .grad = grad_ragged_dot,
      .cost = cost_of,
      .reference = reference_ragged_dot,
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
      .cost = cost_of,
      .reference = reference_ragged_dot_weight,
      .may_alias = 3,
      .addend = 3,
      .chooses_result_dtype = true,
      .samples = weight_samples,
  };
}

}  // namespace megacpp::ops
