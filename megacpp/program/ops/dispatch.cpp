// SPDX-License-Identifier: Apache-2.0
// Moves rows between tokens and the rows of experts. Tokens are x[b,c,l,h], c chunks a sequence; the rows of a chunk
// are y[b,c,E,r,h], r for each of E experts, or packed y[b,c,r,h]. slot[b,c,l,k] names the row of each (token, choice)
// among those of its chunk, counted over all experts (e * r + place), -1 for none; a row is named at most once. The
// three ops are each other's gradients. Chunks are independent. Where experts are split, each chip renumbers the slots
// of its own experts and drops the others: dispatch then makes its rows only, combine and slot_dots leave partial sums.
#include <algorithm>
#include <tuple>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/axis_sets.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/expert_rows.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/partition_rule.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

constexpr size_t kExperts = 2;  // dimension of rows that are not packed

bool is_slots(const ir::TensorType& type) { return type.rank() == 4 && type.dtype == DType::i32; }

// All rows of one chunk.
int64_t chunk_rows(const ir::TensorType& rows) { return is_packed(rows) ? rows.dim(2) : rows.dim(2) * rows.dim(3); }

// Rows and slots of the same chunks.
bool are_rows_slots(const ir::TensorType& rows, const ir::TensorType& slots) {
  return (rows.rank() == 4 || rows.rank() == 5) && is_float(rows.dtype) && is_slots(slots) &&
         rows.dim(0) == slots.dim(0) && rows.dim(1) == slots.dim(1);
}

// Tokens and slots of the same tokens.
bool are_tokens_slots(const ir::TensorType& tokens, const ir::TensorType& slots) {
  return tokens.rank() == 4 && is_float(tokens.dtype) && is_slots(slots) &&
         std::equal(tokens.shape.begin(), tokens.shape.begin() + 3, slots.shape.begin());
}

// Operand 2, where present, holds one weight a slot.
bool is_weighted_or_not(const Types& operands) {
  return operands.size() == 2 || (operands.size() == 3 && is_float(operands[2].dtype) && is_slots(operands[1]) &&
                                  operands[2].shape == operands[1].shape);
}

Types infer_dispatch(const Types& operands, const ir::Attrs& attrs) {
  const bool fits = is_weighted_or_not(operands) && are_tokens_slots(operands[0], operands[1]);
  const ir::Shape& shape = attrs.list("shape");
  require_operands(
      fits && are_rows_slots({operands[0].dtype, shape}, operands[1]) && shape.back() == operands[0].dim(3), "dispatch",
      operands, "x[b,c,l,h], i32 slot[b,c,l,k], optional w[b,c,l,k] and shape=[b,c,E,r,h] or [b,c,r,h]");
  return {{operands[0].dtype, shape}};
}

constexpr size_t kCombineAddend = 3;  // operand, where present

Types infer_combine(const Types& operands, const ir::Attrs&) {
  const bool has_addend = operands.size() > kCombineAddend;
  const Types others(operands.begin(), has_addend ? operands.end() - 1 : operands.end());
  require_operands(
      is_weighted_or_not(others) && are_rows_slots(others[0], others[1]), "combine", operands,
      "y[b,c,E,r,h] or [b,c,r,h], i32 slot[b,c,l,k], optional w[b,c,l,k], and behind w an optional addend");
  const ir::Shape& slots = operands[1].shape;
  const ir::TensorType sums{operands[0].dtype, {slots[0], slots[1], slots[2], operands[0].dim(-1)}};
  if (has_addend) require_type("combine", "addend", operands[kCombineAddend], sums);
  return {sums};
}

Types infer_slot_dots(const Types& operands, const ir::Attrs&) {
  require_operands(operands.size() == 3 && are_tokens_slots(operands[0], operands[2]) &&
                       are_rows_slots(operands[1], operands[2]) && operands[0].dtype == operands[1].dtype &&
                       operands[0].dim(-1) == operands[1].dim(-1),
                   "slot_dots", operands, "x[b,c,l,h], y[b,c,E,r,h] or [b,c,r,h] of one dtype, i32 slot[b,c,l,k]");
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
  operands.resize(std::min(operands.size(), kCombineAddend));  // an addend is not moved
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
  if (args.operands.size() > kCombineAddend) cotangents.push_back(args.cotangents[0]);
  return cotangents;
}

Cotangents grad_slot_dots(const GradArgs& args) {
  const auto [x, y, slot] = std::tie(args.operands[0], args.operands[1], args.operands[2]);
  const ir::Shape rows = args.builder.shape(y);
  return {args.builder.one("combine", {y, slot, *args.cotangents[0]}),
          args.builder.one("dispatch", {x, slot, *args.cotangents[0]}, {{"shape", rows}}), std::nullopt};
}

// Calls body(choice, token, row) for each choice that has a slot; rows are counted over all chunks.
template <typename Body>
void for_each_slot(const Tensor& slot, const ir::TensorType& rows, const Body& body) {
  const int64_t choices = slot.type.dim(3), tokens = slot.type.dim(2), in_chunk = chunk_rows(rows);
  for (int64_t i = 0; i < slot.elements(); ++i) {
    const int64_t row = static_cast<int64_t>(slot[i]), token = i / choices;
    MEGACPP_CHECK(row >= -1 && row < in_chunk) << "slot " << row << " of " << in_chunk;
    if (row >= 0) body(i, token, token / tokens * in_chunk + row);
  }
}

void reference_dispatch(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t width = operands[0].type.dim(-1);
  for_each_slot(operands[1], results[0].type, [&](int64_t choice, int64_t token, int64_t row) {
    const double weight = operands.size() == 3 ? operands[2][choice] : 1.0;
    for (int64_t c = 0; c < width; ++c) results[0][row * width + c] = weight * operands[0][token * width + c];
  });
}

void reference_combine(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t width = operands[0].type.dim(-1);
  if (operands.size() > kCombineAddend) results[0].data = operands[kCombineAddend].data;
  for_each_slot(operands[1], operands[0].type, [&](int64_t choice, int64_t token, int64_t row) {
    const double weight = operands.size() > 2 ? operands[2][choice] : 1.0;
    for (int64_t c = 0; c < width; ++c) results[0][token * width + c] += weight * operands[0][row * width + c];
  });
}

void reference_slot_dots(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t width = operands[0].type.dim(-1);
  for_each_slot(operands[2], operands[1].type, [&](int64_t choice, int64_t token, int64_t row) {
    for (int64_t c = 0; c < width; ++c)
      results[0][choice] += operands[0][token * width + c] * operands[1][row * width + c];
  });
}

// ---- Split experts ----

// Slots counted from the chip's first row, -1 for those of other chips' experts.
ir::ValueId own_slots(PartitionContext& context, ir::ValueId slot, const ir::TensorType& rows, const ir::Axes& axes) {
  Builder& b = context.builder();
  const RuntimeRange experts = runtime_range(b, rows.dim(kExperts), axes, context.mesh());
  const double rows_per_expert = static_cast<double>(rows.dim(3));
  const ir::ValueId counted = b.sub(slot, b.scale(experts.first, rows_per_expert));
  const ir::ValueId end = b.scale(experts.count, rows_per_expert);
  const ir::ValueId none = b.constant(-1.0, {}, DType::i32);
  const ir::ValueId is_before_end = b.compare(counted, end, "lt");
  return b.max(b.select(is_before_end, counted, none), none);  // slots of earlier chips are negative now
}

// The shardings of tokens and slots where the rows of their chunks are sharded as given.
struct Spread {
  ir::Sharding rows, tokens, slots;
};

Spread spread_from(const ir::Sharding& given) {
  Spread spread;
  spread.rows = {.dims = {given.dims[0], given.dims[1], given.dims[kExperts], {}, given.dims[4]}};
  spread.tokens = {.dims = {given.dims[0], given.dims[1], {}, given.dims[4]}};
  spread.slots = {.dims = {given.dims[0], given.dims[1], {}, {}}};
  return spread;
}

// The chip's slots, renumbered, and its weights, if any.
std::vector<ir::ValueId> local_slots(PartitionContext& context, size_t operand, const ir::TensorType& rows,
                                     const Spread& spread) {
  const ir::ValueId slot = context.local(operand, spread.slots);
  std::vector<ir::ValueId> values = {own_slots(context, slot, rows, spread.rows.dims[kExperts])};
  for (size_t weight = operand + 1; weight < context.view().operands.size(); ++weight)
    values.push_back(context.local(weight, spread.slots));
  return values;
}

bool splits_experts(const ir::TensorType& rows, const ir::Sharding& sharding) {
  return !is_packed(rows) && !sharding.dims[kExperts].empty();
}

std::vector<PartitionedResult> partition_dispatch(PartitionContext& context) {
  const ir::TensorType& rows = context.view().results[0];
  const ir::Sharding* wanted = context.requested();
  if (wanted == nullptr || !splits_experts(rows, *wanted)) return {};
  const Spread spread = spread_from(*wanted);
  std::vector<ir::ValueId> operands = {context.local(0, spread.tokens)};
  for (const ir::ValueId value : local_slots(context, 1, rows, spread)) operands.push_back(value);
  ir::Attrs attrs = context.view().attrs;
  attrs.set("shape", ir::local_shape(rows.shape, spread.rows, context.mesh()));
  return {{context.builder().one("dispatch", std::move(operands), std::move(attrs)), spread.rows}};
}

std::vector<PartitionedResult> partition_combine(PartitionContext& context) {
  if (context.view().operands.size() > kCombineAddend)
    return {};  // it would be added by every chip: experts stay whole
  const ir::TensorType& rows = context.view().operands[0];
  const ir::Sharding given = context.sharding(0);
  if (!splits_experts(rows, given)) return {};
  const Spread spread = spread_from(given);
  ir::Sharding own_rows = spread.rows, tokens = spread.tokens;
  own_rows.unreduced = given.unreduced;  // a sum of rows: partial ones may stay so
  tokens.unreduced = ir::merged(given.dims[kExperts], given.unreduced);
  std::vector<ir::ValueId> operands = {context.local(0, own_rows)};
  for (const ir::ValueId value : local_slots(context, 1, rows, spread)) operands.push_back(value);
  return {{context.builder().one("combine", std::move(operands), context.view().attrs), tokens}};
}

std::vector<PartitionedResult> partition_slot_dots(PartitionContext& context) {
  const ir::TensorType& rows = context.view().operands[1];
  const ir::Sharding given = context.sharding(1);
  if (!splits_experts(rows, given)) return {};
  const Spread spread = spread_from(given);
  const ir::Axes& width = given.dims[4];
  const auto zero_padded = [&](ir::ValueId value, int64_t dim) {  // padding must not enter the dots
    return fill_padding(context.builder(), value,
                        {.dim = dim, .size = rows.dim(-1), .axes = width, .mesh = context.mesh()}, 0.0);
  };
  const ir::ValueId own_tokens = zero_padded(context.local(0, spread.tokens), 3);
  const ir::ValueId own_rows = zero_padded(context.local(1, spread.rows), 4);
  const ir::ValueId slots = local_slots(context, 2, rows, spread)[0];
  ir::Sharding dots = spread.slots;
  dots.unreduced = ir::merged(given.dims[kExperts], width);
  return {{context.builder().one("slot_dots", {own_tokens, own_rows, slots}, context.view().attrs), dots}};
}

// ---- StableHLO ----

ir::Shape as_choices(const HloValue& slots) {  // [b,c,l,k] -> [b,c,l*k]
  const ir::Shape& s = slots.type.shape;
  return {s[0], s[1], s[2] * s[3]};
}

// x[b,c,m,h] times w[b,c,m], if there are weights.
HloValue weighted(HloWriter& w, const HloValue& x, const HloArgs& args) {
  if (args.operands.size() < 3) return x;
  const HloValue weights = w.reshape(w.convert(args.operands[2], x.type.element), as_choices(args.operands[2]));
  return w.binary("multiply", x, w.broadcast(weights, x.type.shape, {0, 1, 2}));
}

// Rows[b,c,r,h] of each choice's slot; zeros where it has none. [b,c,l*k,h]
HloValue rows_of_choices(HloWriter& w, const HloValue& rows, const HloValue& slots) {
  const ir::Shape& s = rows.type.shape;
  int64_t count = 1;
  for (size_t d = 2; d + 1 < s.size(); ++d) count *= s[d];
  const HloValue flat = w.reshape(rows, {s[0], s[1], count, s.back()});
  return w.take_rows(flat, w.reshape(slots, as_choices(slots)), 2);
}

// Reading the row of each slot's choice is faster than writing rows to slots: only numbers of choices are scattered.
HloResults hlo_dispatch(HloWriter& w, const HloArgs& args) {
  const HloValue &x = args.operands[0], &slots = args.operands[1];
  const ir::Shape choices = as_choices(slots), result = args.result().shape;
  const int64_t k = slots.type.shape[3], rows = chunk_rows(args.view.results[0]);
  const HloType numbers{"i32", choices};
  const HloValue from_zero = w.iota(numbers, 2);
  const HloValue from_one = w.binary("add", from_zero, w.constant(1, numbers));
  ir::Shape column = choices;
  column.push_back(1);
  const HloValue numbered = w.reshape(from_one, column);
  const HloValue placed = w.add_rows(numbered, w.reshape(slots, choices), rows, 2);
  const HloValue choice =
      w.reshape(w.binary("subtract", placed, w.constant(1, placed.type)), {choices[0], choices[1], rows});
  // Division rounds to zero: -1, nobody's, must not become token 0.
  const HloValue is_used = w.compare(choice, w.constant(0, choice.type), "GE");
  const HloValue token =
      w.select(is_used, w.binary("divide", choice, w.constant(static_cast<double>(k), choice.type)), choice);
  HloValue moved = w.take_rows(x, token, 2);
  if (args.operands.size() == 3) {
    const HloValue weights = w.reshape(w.convert(args.operands[2], x.type.element), column);
    const HloValue weight = w.take_rows(weights, choice, 2);  // [b,c,r,1]
    moved = w.binary("multiply", moved, w.broadcast(weight, moved.type.shape, {0, 1, 2, 3}));
  }
  return {w.reshape(moved, result)};
}

HloResults hlo_combine(HloWriter& w, const HloArgs& args) {
  const HloValue& slots = args.operands[1];
  const HloValue taken = weighted(w, rows_of_choices(w, args.operands[0], slots), args);
  ir::Shape apart = slots.type.shape;
  apart.push_back(taken.type.shape.back());
  HloValue sum = w.reduce(w.convert(w.reshape(taken, apart), "f32"), {3}, "add");
  if (args.operands.size() > kCombineAddend)
    sum = w.binary("add", w.convert(args.operands[kCombineAddend], "f32"), sum);
  return {w.convert(sum, args.result().element)};
}

HloResults hlo_slot_dots(HloWriter& w, const HloArgs& args) {
  const HloValue& slots = args.operands[2];
  const HloValue taken = rows_of_choices(w, args.operands[1], slots);
  ir::Shape apart = slots.type.shape;
  apart.push_back(taken.type.shape.back());
  const HloValue x = w.broadcast(w.convert(args.operands[0], "f32"), apart, {0, 1, 2, 4});
  const HloValue products = w.binary("multiply", x, w.convert(w.reshape(taken, apart), "f32"));
  return {w.convert(w.reduce(products, {4}, "add"), args.result().element)};
}

// ---- Samples ----

// In each chunk every third choice is dropped; the others take the rows from the last down, so with rows to spare row 0
// stays free.
void fill_slots(Tensor& slot, int64_t rows) {
  const int64_t choices = slot.type.dim(2) * slot.type.dim(3);
  int64_t next = rows;
  for (int64_t i = 0; i < slot.elements(); ++i) {
    if (i % choices == 0) next = rows;
    slot[i] = i % 3 == 2 || next == 0 ? -1.0 : static_cast<double>(--next);
  }
}

struct DispatchSizes {
  int64_t batch, chunks, tokens, choices;
  int64_t experts;  // 0: rows are packed
  int64_t rows_per_expert, width;

  ir::Shape token_shape() const { return {batch, chunks, tokens, width}; }
  ir::Shape slot_shape() const { return {batch, chunks, tokens, choices}; }
  ir::Shape row_shape() const {
    return experts == 0 ? ir::Shape{batch, chunks, rows_per_expert, width}
                        : ir::Shape{batch, chunks, experts, rows_per_expert, width};
  }
};

constexpr DispatchSizes kRoomy = {
    .batch = 2, .chunks = 2, .tokens = 6, .choices = 2, .experts = 2, .rows_per_expert = 5, .width = 4};
constexpr DispatchSizes kOdd = {
    .batch = 1, .chunks = 3, .tokens = 5, .choices = 3, .experts = 7, .rows_per_expert = 1, .width = 3};
constexpr DispatchSizes kPacked = {
    .batch = 2, .chunks = 1, .tokens = 6, .choices = 2, .experts = 0, .rows_per_expert = 12, .width = 4};

enum class Source { tokens, rows };

// Operands are those of the sources given, then slots, then weights if asked for.
Sample dispatch_sample(std::string name, const DispatchSizes& sizes, std::initializer_list<Source> sources,
                       bool weighted, ir::Attrs attrs = {}) {
  Types operands;
  for (const Source source : sources)
    operands.push_back({DType::f32, source == Source::rows ? sizes.row_shape() : sizes.token_shape()});
  const size_t slot_operand = operands.size();
  operands.push_back({DType::i32, sizes.slot_shape()});
  if (weighted) operands.push_back({DType::f32, sizes.slot_shape()});
  const int64_t rows = chunk_rows({DType::f32, sizes.row_shape()});
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = std::move(attrs),
          .fill = [slot_operand, rows](std::vector<Tensor>& tensors) { fill_slots(tensors[slot_operand], rows); }};
}

// `spec` names the rows "b c R h"; experts stand apart unless they are packed.
Factors dispatch_factors(const NodeView& view, const ir::TensorType& rows, std::string spec) {
  const size_t at = spec.find('R');
  return factors_from(view, spec.replace(at, 1, is_packed(rows) ? "r" : "x r"), "l k r");
}

Linearity linear_in_rows_and_weights(const NodeView&) { return {Linearity::Kind::each, {0, 2}}; }

Cost flops_per_slot_element(const NodeView& view, const ir::TensorType& slot) {
  return Cost{2.0 * static_cast<double>(slot.elements() * view.operands[0].dim(-1))};
}

}  // namespace

OpDef dispatch_def() {
  return {
      .name = "dispatch",
      .doc = "copies each token's row, times its weight, to its slots; other rows are zero",
      .infer = infer_dispatch,
      .factors =
          [](const NodeView& view) {
            return dispatch_factors(view, view.results[0], "b c l h, b c l k, b c l k -> b c R h");
          },
      .grad = grad_dispatch,
      .cost = [](const NodeView& view) { return Cost{static_cast<double>(view.results[0].elements())}; },
      .reference = reference_dispatch,
      .linear = linear_in_rows_and_weights,
      .partition = partition_dispatch,
      .stablehlo = hlo_dispatch,
      .samples =
          [] {
            const auto make = [](std::string name, const DispatchSizes& sizes, bool weighted) {
              return dispatch_sample(std::move(name), sizes, {Source::tokens}, weighted,
                                     {{"shape", sizes.row_shape()}});
            };
            return std::vector<Sample>{make("plain", kRoomy, false), make("weighted", kRoomy, true),
                                       make("odd", kOdd, true), make("packed", kPacked, false)};
          },
  };
}

OpDef combine_def() {
  return {
      .name = "combine",
      .doc = "sums the rows of each token's slots, times their weights; an optional fourth operand is added",
      .infer = infer_combine,
      .factors =
          [](const NodeView& view) {
            if (view.operands.size() <= kCombineAddend)
              return dispatch_factors(view, view.operands[0], "b c R h, b c l k, b c l k -> b c l h");
            const std::string rows = is_packed(view.operands[0]) ? "b c r h" : "b c x r h";
            return factors_from(view, rows + ", b c l k, b c l k, b c l h -> b c l h", "x l k r");
          },
      .grad = grad_combine,
      .cost = [](const NodeView& view) { return flops_per_slot_element(view, view.operands[1]); },
      .reference = reference_combine,
      .linear =
          [](const NodeView& view) {  // an addend would be added once per chip
            return view.operands.size() > kCombineAddend ? Linearity{} : linear_in_rows_and_weights(view);
          },
      .partition = partition_combine,
      .may_alias = kCombineAddend,
      .addend = kCombineAddend,
      .stablehlo = hlo_combine,
      .samples =
          [] {
            std::vector<Sample> samples = {dispatch_sample("plain", kRoomy, {Source::rows}, false),
                                           dispatch_sample("weighted", kRoomy, {Source::rows}, true),
                                           dispatch_sample("odd", kOdd, {Source::rows}, true),
                                           dispatch_sample("packed", kPacked, {Source::rows}, true)};
            const auto add_accumulated = [&](std::string name, const DispatchSizes& sizes) {
              Sample sum = dispatch_sample(std::move(name), sizes, {Source::rows}, true);
              sum.operands.push_back({DType::f32, sizes.token_shape()});
              samples.push_back(std::move(sum));
            };
            add_accumulated("accumulated", kRoomy);
            add_accumulated("odd_accumulated", kOdd);
            add_accumulated("packed_accumulated", kPacked);
            return samples;
          },
  };
}

OpDef slot_dots_def() {
  return {
      .name = "slot_dots",
      .doc = "dot of each token's row with the rows of its slots; 0 where there is none",
      .infer = infer_slot_dots,
      .factors =
          [](const NodeView& view) {
            return dispatch_factors(view, view.operands[1], "b c l h, b c R h, b c l k -> b c l k");
          },
      .grad = grad_slot_dots,
      .cost = [](const NodeView& view) { return flops_per_slot_element(view, view.operands[2]); },
      .reference = reference_slot_dots,
      .linear =
          [](const NodeView&) {
            return Linearity{Linearity::Kind::each, {0, 1}};
          },
      .partition = partition_slot_dots,
      .stablehlo = hlo_slot_dots,
      .samples =
          [] {
            const auto both = {Source::tokens, Source::rows};
            return std::vector<Sample>{dispatch_sample("even", kRoomy, both, false),
                                       dispatch_sample("odd", kOdd, both, false),
                                       dispatch_sample("packed", kPacked, both, false)};
          },
  };
}

}  // namespace megacpp::ops
