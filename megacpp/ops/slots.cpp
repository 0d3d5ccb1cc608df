// SPDX-License-Identifier: Apache-2.0
// Where each (token, choice) goes among the rows of the experts: a slot in [0, rows), or -1 when it is dropped.
// Tokens compete for places in token order, so the whole batch of one chip is seen at once.
#include <algorithm>
#include <numeric>

#include "megacpp/base/error.h"
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

Types infer_token_choice(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 1 && operands[0].rank() == 2 && operands[0].dtype == DType::i32,
                   "token_choice_slots", operands, "i32 experts[T,k]");
  require_operands(attrs.integer("num_experts") >= 1 && attrs.integer("capacity") >= 0, "token_choice_slots", operands,
                   "num_experts >= 1 and capacity >= 0");
  return {operands[0], {DType::i32, {attrs.integer("num_experts")}}};
}

Types infer_expert_choice(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 1 && operands[0].rank() == 2 && is_float(operands[0].dtype),
                   "expert_choice_slots", operands, "scores[T,E] of floats");
  require_operands(attrs.integer("capacity") >= 1, "expert_choice_slots", operands, "capacity >= 1");
  return {{DType::i32, operands[0].shape}};
}

void reference_token_choice(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& experts = operands[0];
  const int64_t num_experts = attrs.integer("num_experts");
  const int64_t capacity = attrs.integer("capacity");
  const auto expert_of = [&](int64_t i) {
    const int64_t expert = static_cast<int64_t>(experts[i]);
    MEGACPP_CHECK(expert >= 0 && expert < num_experts) << "expert " << expert << " of " << num_experts;
    return expert;
  };
  for (int64_t i = 0; i < experts.elements(); ++i) results[1][expert_of(i)] += 1;
  for (int64_t i = 0; i < experts.elements(); ++i) {
    const int64_t expert = expert_of(i);
    double position = 0;
    for (int64_t earlier = 0; earlier < i; ++earlier) position += expert_of(earlier) == expert ? 1 : 0;
    double first = static_cast<double>(expert * capacity);
    if (capacity == 0)
      for (int64_t lower = 0; lower < expert; ++lower) first += results[1][lower];
    const bool dropped = capacity > 0 && position >= static_cast<double>(capacity);
    results[0][i] = dropped ? -1 : first + position;
  }
}

void reference_expert_choice(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& scores = operands[0];
  const int64_t tokens = scores.type.dim(0);
  const int64_t num_experts = scores.type.dim(1);
  const int64_t capacity = attrs.integer("capacity");
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    std::vector<int64_t> order(static_cast<size_t>(tokens));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return scores[a * num_experts + expert] > scores[b * num_experts + expert];
    });
    for (int64_t rank = 0; rank < tokens; ++rank) {
      const int64_t at = order[static_cast<size_t>(rank)] * num_experts + expert;
      results[0][at] = rank < capacity ? static_cast<double>(expert * capacity + rank) : -1;
    }
  }
}

Sample token_sample(std::string name, ir::Shape shape, int64_t num_experts, int64_t capacity) {
  return {.name = std::move(name),
          .operands = {{DType::i32, std::move(shape)}},
          .attrs = {{"num_experts", num_experts}, {"capacity", capacity}},
          .fill = [num_experts](std::vector<Tensor>& operands) {
            for (int64_t i = 0; i < operands[0].elements(); ++i)
              operands[0][i] = static_cast<double>((i * i + i / 3) % num_experts);
          }};
}

}  // namespace

OpDef token_choice_slots_def() {
  return {
      .name = "token_choice_slots",
      .doc = "slots of tokens that chose their experts, first come first served; capacity 0 drops none",
      .infer = infer_token_choice,
      .factors = [](const NodeView& view) { return factors_from(view, "t k -> t k, e", "t k e"); },
      .no_grad = "integer valued",
      .cost = [](const NodeView&) { return Cost{}; },
      .reference = reference_token_choice,
      .samples =
          [] {
            return std::vector<Sample>{token_sample("dropless", {8, 2}, 4, 0), token_sample("drops", {9, 2}, 5, 3),
                                       token_sample("one_expert", {7, 1}, 1, 4)};
          },
  };
}

OpDef expert_choice_slots_def() {
  return {
      .name = "expert_choice_slots",
      .doc = "slots of the tokens each expert chose, its highest scores first",
      .infer = infer_expert_choice,
      .factors = [](const NodeView& view) { return factors_from(view, "t e -> t e", "t e"); },
      .no_grad = "integer valued",
      .cost = [](const NodeView& view) { return Cost{static_cast<double>(view.operands[0].elements())}; },
      .reference = reference_expert_choice,
      .samples =
          [] {
            return std::vector<Sample>{
                {.name = "half", .operands = {{DType::f32, {8, 4}}}, .attrs = {{"capacity", 4}}},
                {.name = "odd", .operands = {{DType::f32, {7, 3}}}, .attrs = {{"capacity", 2}}},
                {.name = "room_to_spare", .operands = {{DType::f32, {3, 2}}}, .attrs = {{"capacity", 5}}},
            };
          },
  };
}

}  // namespace megacpp::ops
