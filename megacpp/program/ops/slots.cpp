// SPDX-License-Identifier: Apache-2.0
// Which tokens an expert takes, and where each (token, choice) goes among the rows of the experts. A sequence is stored
// in c chunks of l tokens; experts[b,c,l,k] names the expert of each choice, -1 for none, each at most once in a token.
// Tokens compete inside their sequence only, so sequences are independent, and so are chunks once `before` tells what
// the earlier ones ask for.
#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

bool is_experts(const ir::TensorType& type) { return type.rank() == 4 && type.dtype == DType::i32; }

// [b,c,E] for experts[b,c,l,k].
ir::TensorType per_expert(const ir::TensorType& experts, const ir::Attrs& attrs) {
  return {DType::i32, {experts.dim(0), experts.dim(1), attrs.integer("num_experts")}};
}

Types infer_counts(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 1 && is_experts(operands[0]), "expert_counts", operands, "i32 experts[b,c,l,k]");
  require_at_least("expert_counts", attrs, "num_experts", 1);
  return {per_expert(operands[0], attrs)};
}

Types infer_token_choice(const Types& operands, const ir::Attrs& attrs) {
  const std::string_view op = "token_choice_slots";
  require_at_least(op, attrs, "num_experts", 1);
  require_at_least(op, attrs, "capacity", 0);
  require_at_least(op, attrs, "rows_per_expert", 0);
  const bool fits = (operands.size() == 1 || operands.size() == 2) && is_experts(operands[0]);
  require_operands(fits && (operands.size() == 1 || operands[1] == per_expert(operands[0], attrs)), op, operands,
                   "i32 experts[b,c,l,k], optional i32 before[b,c,num_experts]");
  require_operands(attrs.integer("rows_per_expert") > 0 || attrs.integer("capacity") == 0, op, operands,
                   "capacity 0 where rows are packed (rows_per_expert 0)");
  return {operands[0]};
}

Types infer_expert_choice(const Types& operands, const ir::Attrs& attrs) {
  const bool fits = (operands.size() == 1 || operands.size() == 2) && operands[0].rank() == 3 &&
                    is_float(operands[0].dtype) &&
                    (operands.size() == 1 || operands[1] == ir::TensorType{DType::i32, {operands[0].dim(1)}});
  require_operands(fits, "expert_choice", operands, "scores[b,s,E] of floats, optional i32 times[s]");
  require_at_least("expert_choice", attrs, "capacity", 1);
  return {{DType::pred, operands[0].shape}};
}

int64_t checked_expert(double value, int64_t num_experts) {
  const int64_t expert = static_cast<int64_t>(value);
  MEGACPP_CHECK(expert >= -1 && expert < num_experts) << "expert " << expert << " of " << num_experts;
  return expert;
}

void reference_counts(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const int64_t num_experts = attrs.integer("num_experts");
  const int64_t choices = operands[0].type.dim(2) * operands[0].type.dim(3);  // of one chunk
  for (int64_t i = 0; i < operands[0].elements(); ++i) {
    const int64_t expert = checked_expert(operands[0][i], num_experts);
    if (expert >= 0) results[0][i / choices * num_experts + expert] += 1;
  }
}

void reference_token_choice(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const int64_t num_experts = attrs.integer("num_experts");
  const double capacity = static_cast<double>(attrs.integer("capacity"));
  const double rows_per_expert = static_cast<double>(attrs.integer("rows_per_expert"));
  const int64_t choices = operands[0].type.dim(2) * operands[0].type.dim(3);  // of one chunk
  for (int64_t i = 0; i < operands[0].elements(); ++i) {
    const int64_t chunk = i / choices, expert = checked_expert(operands[0][i], num_experts);
    double position = 0, of_lower_experts = 0;
    for (int64_t other = chunk * choices; other < (chunk + 1) * choices; ++other) {
      const int64_t expert_of_other = checked_expert(operands[0][other], num_experts);
      if (other < i && expert_of_other == expert) position += 1;
      if (expert_of_other >= 0 && expert_of_other < expert) of_lower_experts += 1;
    }
    const double before = operands.size() == 2 && expert >= 0 ? operands[1][chunk * num_experts + expert] : 0;
    const bool too_many = capacity > 0 && before + position >= capacity;
    const bool too_far = rows_per_expert > 0 && position >= rows_per_expert;
    const double first = rows_per_expert > 0 ? static_cast<double>(expert) * rows_per_expert : of_lower_experts;
    results[0][i] = expert < 0 || too_many || too_far ? -1 : first + position;
  }
}

void reference_expert_choice(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& scores = operands[0];
  const int64_t sequence = scores.type.dim(1), num_experts = scores.type.dim(2);
  const auto time = [&](int64_t token) {
    return operands.size() == 2 ? operands[1][token] : static_cast<double>(token);
  };
  for_each_index(scores.type.shape, [&](const ir::Shape& index) {
    const int64_t token = index[1], first = index[0] * sequence * num_experts + index[2];
    const double own = scores[first + token * num_experts];
    int64_t better = 0;
    for (int64_t other = 0; other < sequence; ++other) {
      const double theirs = scores[first + other * num_experts];
      if (theirs > own || (theirs == own && time(other) < time(token))) ++better;
    }
    results[0][first + token * num_experts] = better < attrs.integer("capacity") ? 1 : 0;
  });
}

// Some choices are nobody's; a token's experts are distinct as long as there are as many experts as choices.
void fill_experts(Tensor& experts, int64_t num_experts) {
  const int64_t k = experts.type.dim(3);
  for (int64_t i = 0; i < experts.elements(); ++i) {
    const int64_t token = i / k;
    experts[i] = i % 7 == 5 ? -1.0 : static_cast<double>((token * token + token / 3 + i % k) % num_experts);
  }
}

Sample count_sample(std::string name, ir::Shape shape, int64_t num_experts) {
  return {.name = std::move(name),
          .operands = {{DType::i32, std::move(shape)}},
          .attrs = {{"num_experts", num_experts}},
          .fill = [num_experts](std::vector<Tensor>& operands) { fill_experts(operands[0], num_experts); }};
}

struct Limits {
  int64_t num_experts, capacity, rows_per_expert;
  bool has_before = false;
};

Sample token_sample(std::string name, const ir::Shape& shape, const Limits& limits) {
  Types operands = {{DType::i32, shape}};
  if (limits.has_before) operands.push_back({DType::i32, {shape[0], shape[1], limits.num_experts}});
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = {{"num_experts", limits.num_experts},
                    {"capacity", limits.capacity},
                    {"rows_per_expert", limits.rows_per_expert}},
          .low = 0.0,
          .high = 4.0,
          .fill = [num_experts = limits.num_experts](std::vector<Tensor>& values) {
            fill_experts(values[0], num_experts);
          }};
}

// Many equal scores; tokens stored as late, early, late, ...
void fill_ties(std::vector<Tensor>& operands) {
  for (int64_t i = 0; i < operands[0].elements(); ++i) operands[0][i] = static_cast<double>(i * i % 3);
  const int64_t sequence = operands[0].type.dim(1);
  for (int64_t t = 0; operands.size() == 2 && t < sequence; ++t)
    operands[1][t] = static_cast<double>(t % 2 == 0 ? sequence - 1 - t / 2 : t / 2);
}

// ---- StableHLO ----

// experts[b,c,l,k] -> i32[b,c,l*k,E]: 1 where the choice is that expert.
HloValue chosen(HloWriter& w, const HloArgs& args) {
  const HloValue& experts = args.operands[0];
  const ir::Shape& s = experts.type.shape;
  return w.one_hot(w.reshape(experts, {s[0], s[1], s[2] * s[3]}), args.attrs().integer("num_experts"), "i32");
}

HloResults hlo_counts(HloWriter& w, const HloArgs& args) { return {w.reduce(chosen(w, args), {2}, "add")}; }

HloResults hlo_token_choice(HloWriter& w, const HloArgs& args) {
  const int64_t capacity = args.attrs().integer("capacity"), rows_per_expert = args.attrs().integer("rows_per_expert");
  const HloValue one_hot = chosen(w, args);
  const ir::Shape shape = {one_hot.type.shape[0], one_hot.type.shape[1], one_hot.type.shape[2]};
  const HloType type{"i32", shape};
  const HloValue expert = w.reshape(args.operands[0], shape);
  const auto number = [&](int64_t value) { return w.constant(static_cast<double>(value), type); };
  const auto of_expert = [&](const HloValue& per_expert) {  // [b,c,E] -> [b,c,m]
    return w.reduce(w.binary("multiply", one_hot, w.broadcast(per_expert, one_hot.type.shape, {0, 1, 3})), {3}, "add");
  };
  const HloValue so_far = w.reduce(w.binary("multiply", one_hot, w.cumsum(one_hot, 2, false)), {3}, "add");
  const HloValue position = w.binary("subtract", so_far, number(1));
  HloValue is_placed = w.compare(expert, number(0), "GE");
  if (capacity > 0) {
    const HloValue requested =
        args.operands.size() == 2 ? w.binary("add", position, of_expert(args.operands[1])) : position;
    is_placed = w.binary("and", is_placed, w.compare(requested, number(capacity), "LT"));
  }
  HloValue first;
  if (rows_per_expert > 0) {
    is_placed = w.binary("and", is_placed, w.compare(position, number(rows_per_expert), "LT"));
    first = w.binary("multiply", expert, number(rows_per_expert));
  } else {
    const HloValue counts = w.reduce(one_hot, {2}, "add");
    first = of_expert(w.binary("subtract", w.cumsum(counts, 2, false), counts));
  }
  const HloValue slot = w.binary("add", first, position);
  return {w.reshape(w.select(is_placed, slot, number(-1)), args.result().shape)};
}

// Sorted by (score, time), the last one that fits is the bar that others are held to.
HloResults hlo_expert_choice(HloWriter& w, const HloArgs& args) {
  const HloValue& scores = args.operands[0];
  const ir::Shape& shape = scores.type.shape;
  const int64_t capacity = std::min(args.attrs().integer("capacity"), shape[1]);
  const HloType times_type{"i32", shape};
  const HloValue times = args.operands.size() == 2 ? w.broadcast(args.operands[1], shape, {1}) : w.iota(times_type, 1);
  const std::string score = "tensor<" + scores.type.element + ">";
  const auto compare = [&](const char* name, int operand, const char* direction, const std::string& type) {
    return std::string(name) + " = \"stablehlo.compare\"(%a" + std::to_string(operand) + ", %b" +
           std::to_string(operand) + ") {comparison_direction = #stablehlo<comparison_direction " + direction +
           ">} : (" + type + ", " + type + ") -> tensor<i1> ";
  };
  const std::string i1 = "(tensor<i1>, tensor<i1>) -> tensor<i1> ";
  const std::vector<HloValue> both = {scores, times};
  const std::vector<HloValue> sorted =
      w.sort(both, 1,
             compare("%gt", 0, "GT", score) + compare("%eq", 0, "EQ", score) + compare("%lt", 1, "LT", "tensor<i32>") +
                 "%tie = \"stablehlo.and\"(%eq, %lt) : " + i1 + "%r = \"stablehlo.or\"(%gt, %tie) : " + i1);
  const auto bar = [&](size_t i) {
    const HloValue last = w.slice(sorted[i], 1, capacity - 1, 1);
    return w.broadcast(w.reshape(last, {shape[0], shape[2]}), shape, {0, 2});
  };
  const HloValue score_bar = bar(0), time_bar = bar(1);
  const HloValue is_equal = w.compare(scores, score_bar, "EQ");
  const HloValue is_tie = w.binary("and", is_equal, w.compare(times, time_bar, "LE"));
  return {w.binary("or", w.compare(scores, score_bar, "GT"), is_tie)};
}

}  // namespace

OpDef expert_counts_def() {
  return {
      .name = "expert_counts",
      .doc = "how often each expert is chosen in each chunk; -1 is nobody",
      .infer = infer_counts,
      .factors = [](const NodeView& view) { return factors_from(view, "b c l k -> b c x", "l k x"); },
      .no_grad = "integer valued",
      .cost = [](const NodeView&) { return Cost{}; },
      .reference = reference_counts,
      .stablehlo = hlo_counts,
      .samples =
          [] {
            return std::vector<Sample>{count_sample("chunks", {2, 4, 6, 2}, 4), count_sample("odd", {3, 1, 5, 3}, 5),
                                       count_sample("one_expert", {2, 2, 3, 1}, 1)};
          },
  };
}

OpDef token_choice_slots_def() {
  return {
      .name = "token_choice_slots",
      .doc =
          "row of each choice in its chunk: place p of expert e is row e * rows_per_expert + p (rows_per_expert 0: "
          "behind the rows of lower "
          "experts), -1 past the rows_per_expert or where p + before reaches the capacity (0 drops none)",
      .infer = infer_token_choice,
      .factors = [](const NodeView& view) { return factors_from(view, "b c l k, b c x -> b c l k", "l k x"); },
      .no_grad = "integer valued",
      .cost = [](const NodeView&) { return Cost{}; },
      .reference = reference_token_choice,
      .stablehlo = hlo_token_choice,
      .samples =
          [] {
            return std::vector<Sample>{
                token_sample("packed", {2, 2, 8, 2}, {.num_experts = 4, .capacity = 0, .rows_per_expert = 0}),
                token_sample("dropless", {2, 1, 8, 2}, {.num_experts = 4, .capacity = 0, .rows_per_expert = 8}),
                token_sample("drops", {3, 1, 9, 2}, {.num_experts = 5, .capacity = 3, .rows_per_expert = 3}),
                token_sample("chunks", {2, 4, 5, 2},
                             {.num_experts = 4, .capacity = 4, .rows_per_expert = 4, .has_before = true}),
                token_sample("one_expert", {2, 1, 7, 1}, {.num_experts = 1, .capacity = 4, .rows_per_expert = 4})};
          },
  };
}

OpDef expert_choice_def() {
  return {
      .name = "expert_choice",
      .doc =
          "whether each expert takes each token: its `capacity` highest scores of a sequence, the earlier of equals by "
          "times[s] (absent: as stored)",
      .infer = infer_expert_choice,
      .factors = [](const NodeView& view) { return factors_from(view, "b s x, s -> b s x", "s"); },
      .no_grad = "a choice",
      .cost = [](const NodeView& view) { return Cost{static_cast<double>(view.operands[0].elements())}; },
      .reference = reference_expert_choice,
      .stablehlo = hlo_expert_choice,
      .samples =
          [] {
            return std::vector<Sample>{
                {.name = "half", .operands = {{DType::f32, {2, 8, 4}}}, .attrs = {{"capacity", 4}}},
                {.name = "odd", .operands = {{DType::f32, {3, 7, 3}}}, .attrs = {{"capacity", 2}}},
                {.name = "ties", .operands = {{DType::f32, {2, 9, 2}}}, .attrs = {{"capacity", 4}}, .fill = fill_ties},
                {.name = "ties_by_time",
                 .operands = {{DType::f32, {2, 8, 2}}, {DType::i32, {8}}},
                 .attrs = {{"capacity", 3}},
                 .fill = fill_ties},
                {.name = "room_to_spare", .operands = {{DType::f32, {2, 3, 2}}}, .attrs = {{"capacity", 5}}},
            };
          },
  };
}

}  // namespace megacpp::ops
