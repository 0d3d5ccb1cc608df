// SPDX-License-Identifier: Apache-2.0
// Moves rows between tokens and expert slots. A slot array [T,k] names the row of each (token, choice), -1 for none;
// a row is named at most once. The three ops are each other's gradients.
#include <tuple>

#include "megacpp/base/error.h"
#include "megacpp/ops/builder.h"
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

bool is_slots(const ir::TensorType& type) { return type.rank() == 2 && type.dtype == DType::i32; }

// Operands 0 and 1 are rows and slots; operand 2, where present, holds one weight a slot.
bool are_rows_slots_weights(const Types& operands) {
  if (operands.size() != 2 && operands.size() != 3) return false;
  if (operands[0].rank() != 2 || !is_float(operands[0].dtype) || !is_slots(operands[1])) return false;
  return operands.size() == 2 || (is_float(operands[2].dtype) && operands[2].shape == operands[1].shape);
}

Types infer_dispatch(const Types& operands, const ir::Attrs& attrs) {
  const ir::Shape& shape = attrs.list("shape");
  require_operands(are_rows_slots_weights(operands) && operands[0].dim(0) == operands[1].dim(0) && shape.size() == 2 &&
                       shape[1] == operands[0].dim(1),
                   "dispatch", operands, "x[T,h], i32 slot[T,k], optional w[T,k] and shape=[rows,h]");
  return {{operands[0].dtype, shape}};
}

Types infer_combine(const Types& operands, const ir::Attrs&) {
  require_operands(are_rows_slots_weights(operands), "combine", operands, "y[rows,h], i32 slot[T,k], optional w[T,k]");
  return {{operands[0].dtype, {operands[1].dim(0), operands[0].dim(1)}}};
}

Types infer_slot_dots(const Types& operands, const ir::Attrs&) {
  require_operands(operands.size() == 3 && operands[0].rank() == 2 && operands[1].rank() == 2 &&
                       is_slots(operands[2]) && is_float(operands[0].dtype) && operands[0].dtype == operands[1].dtype &&
                       operands[0].dim(0) == operands[2].dim(0) && operands[0].dim(1) == operands[1].dim(1),
                   "slot_dots", operands, "x[T,h], y[rows,h] of one dtype, i32 slot[T,k]");
  return {{operands[0].dtype, operands[2].shape}};
}

// The cotangent of optional weights (operand 2): dots of token rows with slot rows.
void push_weight_grad(const GradArgs& args, ir::ValueId tokens, ir::ValueId rows, Cotangents& cotangents) {
  if (args.operands.size() < 3) return;
  const ir::ValueId dots = args.builder.one("slot_dots", {tokens, rows, args.operands[1]});
  cotangents.push_back(args.builder.convert(dots, args.builder.type(args.operands[2]).dtype));
}

// The operands of the opposite move: the cotangent in place of the rows.
std::vector<ir::ValueId> moved_back(const GradArgs& args) {
  std::vector<ir::ValueId> operands = args.operands;
  operands[0] = *args.cotangents[0];
  return operands;
}

Cotangents grad_dispatch(const GradArgs& args) {
  Cotangents cotangents = {args.builder.one("combine", moved_back(args)), std::nullopt};
  push_weight_grad(args, args.operands[0], *args.cotangents[0], cotangents);
  return cotangents;
}

Cotangents grad_combine(const GradArgs& args) {
  const ir::Shape rows = args.builder.shape(args.operands[0]);
  Cotangents cotangents = {args.builder.one("dispatch", moved_back(args), {{"shape", rows}}), std::nullopt};
  push_weight_grad(args, *args.cotangents[0], args.operands[0], cotangents);
  return cotangents;
}

Cotangents grad_slot_dots(const GradArgs& args) {
  const auto [x, y, slot] = std::tie(args.operands[0], args.operands[1], args.operands[2]);
  const ir::Shape rows = args.builder.shape(y);
  return {args.builder.one("combine", {y, slot, *args.cotangents[0]}),
          args.builder.one("dispatch", {x, slot, *args.cotangents[0]}, {{"shape", rows}}), std::nullopt};
}

// Calls body(choice, token, row) for each choice that has a slot.
template <typename Body>
void for_each_slot(const Tensor& slot, int64_t rows, const Body& body) {
  for (int64_t i = 0; i < slot.elements(); ++i) {
    const int64_t row = static_cast<int64_t>(slot[i]);
    MEGACPP_CHECK(row >= -1 && row < rows) << "slot " << row << " of " << rows;
    if (row >= 0) body(i, i / slot.type.dim(1), row);
  }
}

void reference_dispatch(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t width = operands[0].type.dim(1);
  for_each_slot(operands[1], results[0].type.dim(0), [&](int64_t choice, int64_t token, int64_t row) {
    const double weight = operands.size() == 3 ? operands[2][choice] : 1.0;
    for (int64_t c = 0; c < width; ++c) results[0][row * width + c] = weight * operands[0][token * width + c];
  });
}

void reference_combine(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t width = operands[0].type.dim(1);
  for_each_slot(operands[1], operands[0].type.dim(0), [&](int64_t choice, int64_t token, int64_t row) {
    const double weight = operands.size() == 3 ? operands[2][choice] : 1.0;
    for (int64_t c = 0; c < width; ++c) results[0][token * width + c] += weight * operands[0][row * width + c];
  });
}

void reference_slot_dots(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t width = operands[0].type.dim(1);
  for_each_slot(operands[2], operands[1].type.dim(0), [&](int64_t choice, int64_t token, int64_t row) {
    for (int64_t c = 0; c < width; ++c)
      results[0][choice] += operands[0][token * width + c] * operands[1][row * width + c];
  });
}

// Every third choice is dropped; the others take the rows from the last down, so with room to spare row 0 stays free.
void fill_slots(Tensor& slot, int64_t rows) {
  int64_t next = rows;
  for (int64_t i = 0; i < slot.elements(); ++i) slot[i] = i % 3 == 2 || next == 0 ? -1.0 : static_cast<double>(--next);
}

struct Sizes {
  int64_t tokens, choices, rows, width;
};

// Operands are those of the rows given, then slots, then weights if asked for.
Sample sample(std::string name, const Sizes& sizes, std::vector<int64_t> row_counts, bool weighted, ir::Attrs attrs) {
  const ir::Shape slots = {sizes.tokens, sizes.choices};
  Types operands;
  for (const int64_t count : row_counts) operands.push_back({DType::f32, {count, sizes.width}});
  const size_t slot_operand = operands.size();
  operands.push_back({DType::i32, slots});
  if (weighted) operands.push_back({DType::f32, slots});
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = std::move(attrs),
          .fill = [slot_operand, rows = sizes.rows](std::vector<Tensor>& tensors) {
            fill_slots(tensors[slot_operand], rows);
          }};
}

constexpr Sizes kRoomy = {.tokens = 6, .choices = 2, .rows = 10, .width = 4};
constexpr Sizes kOdd = {.tokens = 5, .choices = 3, .rows = 7, .width = 3};

Cost flops_per_slot_element(const NodeView& view, const ir::TensorType& slot) {
  return Cost{2.0 * static_cast<double>(slot.elements() * view.operands[0].dim(1))};
}

}  // namespace

OpDef dispatch_def() {
  return {
      .name = "dispatch",
      .doc = "copies each token's row, times its weight, to its slots; other rows are zero",
      .infer = infer_dispatch,
      .factors = [](const NodeView& view) { return factors_from(view, "t h, t k, t k -> r h", "t k r"); },
      .grad = grad_dispatch,
      .cost = [](const NodeView& view) { return Cost{static_cast<double>(view.results[0].elements())}; },
      .reference = reference_dispatch,
      .samples =
          [] {
            const auto make = [](std::string name, const Sizes& sizes, bool weighted) {
              return sample(std::move(name), sizes, {sizes.tokens}, weighted,
                            {{"shape", ir::Shape{sizes.rows, sizes.width}}});
            };
            return std::vector<Sample>{make("plain", kRoomy, false), make("weighted", kRoomy, true),
                                       make("odd", kOdd, true)};
          },
  };
}

OpDef combine_def() {
  return {
      .name = "combine",
      .doc = "sums the rows of each token's slots, times their weights",
      .infer = infer_combine,
      .factors = [](const NodeView& view) { return factors_from(view, "r h, t k, t k -> t h", "t k r"); },
      .grad = grad_combine,
      .cost = [](const NodeView& view) { return flops_per_slot_element(view, view.operands[1]); },
      .reference = reference_combine,
      .samples =
          [] {
            return std::vector<Sample>{sample("plain", kRoomy, {kRoomy.rows}, false, {}),
                                       sample("weighted", kRoomy, {kRoomy.rows}, true, {}),
                                       sample("odd", kOdd, {kOdd.rows}, true, {})};
          },
  };
}

OpDef slot_dots_def() {
  return {
      .name = "slot_dots",
      .doc = "dot of each token's row with the rows of its slots; 0 where there is none",
      .infer = infer_slot_dots,
      .factors = [](const NodeView& view) { return factors_from(view, "t h, r h, t k -> t k", "t k r"); },
      .grad = grad_slot_dots,
      .cost = [](const NodeView& view) { return flops_per_slot_element(view, view.operands[2]); },
      .reference = reference_slot_dots,
      .samples =
          [] {
            return std::vector<Sample>{sample("even", kRoomy, {kRoomy.tokens, kRoomy.rows}, false, {}),
                                       sample("odd", kOdd, {kOdd.tokens, kOdd.rows}, false, {})};
          },
  };
}

}  // namespace megacpp::ops
