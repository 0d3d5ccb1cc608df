// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/experts.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/program/blocks/activation.h"

namespace megacpp::blocks {
namespace {

ValueId clamped_swiglu(ops::Builder& b, const FeedForward& f, ValueId up, ValueId gate) {
  const auto number = [&](double value) { return b.constant(value, {}, b.type(up).dtype); };
  const ValueId limit = number(f.clamp_limit), lowest = number(-f.clamp_limit);
  const ValueId g = b.min(gate, limit);
  const ValueId u = b.offset(b.max(b.min(up, limit), lowest), 1.0);
  const ValueId slope = b.logistic(b.scale(g, f.clamp_slope));
  return b.mul(b.mul(g, slope), u);
}

// log(sum(exp)) over the last dimension of [b, s, v]; the cross-entropy kernel computes just that for a masked label.
ValueId log_sum_exp(ops::Builder& b, ValueId logits) {
  const ValueId masked = b.constant(-1.0, {b.type(logits).dim(0), b.type(logits).dim(1)}, ir::DType::i32);
  return b.node("cross_entropy", {logits, masked})[1];
}

// Tokens inside an expert block: [batch, chunks, length, ..]. A layout may split a sequence between chunks.
struct Tokens {
  int64_t batch, chunks, length;

  ir::Shape shape(int64_t width) const { return {batch, chunks, length, width}; }
};

Tokens tokens_of(const BuildContext& context) {
  const int64_t chunks = context.parallel.token_chunks;
  MEGACPP_CHECK(context.dims.sequence % chunks == 0)
      << "a sequence of " << context.dims.sequence << " in " << chunks << " chunks";
  return {context.dims.batch, chunks, context.dims.sequence / chunks};
}

struct Routing {
  ValueId slot;      // i32[batch, chunks, length, choices]
  ValueId weights;   // f32[batch, chunks, length, choices]
  ValueId requests;  // i32[batch, chunks, experts], before dropping
  ValueId used;      // i32[batch, chunks, experts]: rows that hold a token
  ir::Shape rows;    // [batch, chunks, experts, rows, hidden], or packed [batch, chunks, length * top_k, hidden]
};

// Requests of the same sequence in chunks earlier in time, whatever order they are stored in; shaped like `requests`.
ValueId requests_before(const BuildContext& context, ValueId requests) {
  ops::Builder& b = context.builder;
  const std::vector<int64_t> time = context.parallel.time_order(b.type(requests).dim(1));
  std::vector<size_t> stored(time.size());  // by time
  for (size_t i = 0; i < time.size(); ++i) stored[static_cast<size_t>(time[i])] = i;
  std::vector<ValueId> before(time.size());
  ValueId sum = b.constant(0.0, {b.type(requests).dim(0), 1, b.type(requests).dim(2)}, ir::DType::i32);
  for (const size_t i : stored) {
    before[i] = sum;
    sum = b.add(sum, b.slice(requests, 1, static_cast<int64_t>(i), 1));
  }
  return b.concatenate(before, 1);
}

struct Limits {
  int64_t capacity;         // requests of a sequence that each expert takes, the earliest; 0: all
  int64_t rows_per_expert;  // in one chunk; 0: packed, as many as are requested
};

Limits limits_of(const BuildContext& context) {
  const FeedForward& f = context.config.as<FeedForward>();
  const int64_t length = tokens_of(context).length;
  // Rows for all would be mostly empty: only experts that go to other chips get it. A decoder drops nothing: the tokens
  // of a step are no sequence.
  if (f.is_dropless() || context.decoding != nullptr)
    return {.capacity = 0, .rows_per_expert = context.parallel.axes_of(Dim::experts).empty() ? 0 : length};
  const int64_t capacity = f.capacity(context.dims.sequence);
  // Experts that choose take no more than that by themselves.
  return {.capacity = f.routing == RoutedBy::experts ? 0 : capacity, .rows_per_expert = std::min(capacity, length)};
}

ir::Shape row_shape(const BuildContext& context, int64_t rows_per_expert) {
  const FeedForward& f = context.config.as<FeedForward>();
  const Tokens tokens = tokens_of(context);
  const int64_t hidden = context.dims.hidden;
  if (rows_per_expert == 0) return {tokens.batch, tokens.chunks, tokens.length * f.top_k, hidden};
  return {tokens.batch, tokens.chunks, f.experts, rows_per_expert, hidden};
}

// A row for each of `experts`, i32[batch, chunks, length, choices], up to `rows_per_expert`.
Routing place(const BuildContext& context, ValueId experts, ValueId weights) {
  ops::Builder& b = context.builder;
  const int64_t num_experts = context.config.as<FeedForward>().experts;
  const Limits limits = limits_of(context);
  const ValueId requests = b.one("expert_counts", {experts}, {{"num_experts", num_experts}});
  ValueId used = requests;
  std::vector<ValueId> operands = {experts};
  if (limits.capacity > 0) {
    ValueId left = b.constant(static_cast<double>(limits.capacity), b.shape(requests), ir::DType::i32);
    if (context.parallel.token_chunks > 1) {
      operands.push_back(requests_before(context, requests));
      const ValueId none = b.constant(0.0, {}, ir::DType::i32);
      left = b.max(b.sub(left, operands[1]), none);
    }
    used = b.min(requests, left);
  }
  const ValueId slot =
      b.one("token_choice_slots", std::move(operands),
            {{"num_experts", num_experts}, {"capacity", limits.capacity}, {"rows_per_expert", limits.rows_per_expert}});
  return {slot, weights, requests, used, row_shape(context, limits.rows_per_expert)};
}

// Scores [batch, sequence, experts] with those outside of a token's best groups so low that none is chosen.
ValueId of_best_groups(ops::Builder& b, const FeedForward& f, ValueId selection) {
  constexpr double kNever = -1e30;
  constexpr int64_t kCounted = 2;  // scores of a group that its sum has
  const int64_t batch = b.shape(selection)[0], sequence = b.shape(selection)[1], groups = f.expert_groups;
  const ir::Shape by_group = {batch, sequence, groups, f.experts / groups};
  const ValueId grouped = b.reshape(selection, by_group);
  const ValueId sums = b.reduce_sum(b.node("top_k", {grouped}, {{"k", kCounted}})[0], {3});
  const ValueId best = b.node("top_k", {sums}, {{"k", f.top_groups}})[1];  // i32[batch, sequence, top_groups]
  const ir::Shape pairs = {batch, sequence, f.top_groups, groups};
  const ValueId group = b.iota(pairs, 3);
  const ValueId is_group = b.compare(b.broadcast(best, pairs, {0, 1, 2}), group, "eq");
  const ValueId is_best = b.reduce_max(b.convert(is_group, ir::DType::f32), {2});  // [batch, sequence, groups]
  const ValueId spread = b.broadcast(is_best, by_group, {0, 1, 2});
  const ValueId taken = b.compare(spread, b.constant_like(0.0, spread), "gt");
  return b.reshape(b.select(taken, grouped, b.constant_like(kNever, grouped)), b.shape(selection));
}

Routing route_tokens(const BuildContext& context, ValueId scores) {
  ops::Builder& b = context.builder;
  const FeedForward& f = context.config.as<FeedForward>();
  const bool biased = f.has_selection_bias();
  // The bias steers which experts are chosen, never how much they count.
  ValueId selection = biased ? b.add(scores, b.broadcast(context.master("expert_bias"), b.shape(scores), {2})) : scores;
  if (f.top_groups < f.expert_groups) selection = of_best_groups(b, f, selection);
  const std::vector<ValueId> top = b.node("top_k", {selection}, {{"k", f.top_k}});
  ValueId weights = top[0];
  if (biased) {
    const ValueId bias = b.one("take", {b.reshape(context.master("expert_bias"), {f.experts, 1}), top[1]});
    weights = b.sub(weights, b.reshape(bias, b.shape(weights)));
  }
  if (f.renormalise) {
    const ValueId sum = b.offset(b.reduce_sum(weights, {2}), 1e-20);
    weights = b.div(weights, b.broadcast(sum, b.shape(weights), {0, 1}));
  }
  if (f.routed_scale != 1) weights = b.scale(weights, f.routed_scale);
  const ir::Shape chunks = tokens_of(context).shape(f.top_k);
  const ValueId experts = b.reshape(top[1], chunks);
  return place(context, experts, b.reshape(weights, chunks));
}

// Every expert is a choice of every token, taken where the expert took the token.
Routing route_experts(const BuildContext& context, ValueId scores) {
  MEGACPP_REQUIRE(context.decoding == nullptr, E1505,
                  {.where = context.block,
                   .got = "routing expert_choice",
                   .wanted = "token_choice: experts that choose tokens compare them with those to come",
                   .next = "generate with a model whose tokens choose their experts"});
  ops::Builder& b = context.builder;
  const FeedForward& f = context.config.as<FeedForward>();
  std::vector<ValueId> operands = {scores};
  if (context.positions) operands.push_back(*context.positions);
  const ValueId chosen = b.one("expert_choice", std::move(operands), {{"capacity", f.capacity(context.dims.sequence)}});
  const ValueId expert = b.iota(b.shape(scores), 2);
  const ValueId nobody = b.constant(-1.0, {}, ir::DType::i32);
  const ir::Shape chunks = tokens_of(context).shape(f.experts);
  const ValueId experts = b.reshape(b.select(chosen, expert, nobody), chunks);
  return place(context, experts, b.reshape(scores, chunks));
}

// The experts' own feed-forward on the dispatched rows. Only rows in use are multiplied, and only they get a bias: it
// is the product of one with the expert's.
ValueId run_experts(const BuildContext& context, ValueId rows, ValueId used) {
  ops::Builder& b = context.builder;
  const FeedForward& f = context.config.as<FeedForward>();
  const auto multiply = [&](ValueId inputs, ValueId matrices) {
    return b.one("ragged_dot", {inputs, b.convert(matrices, context.dims.compute), used},
                 {{"transpose_w", int64_t{0}}});
  };
  const auto product = [&](ValueId x, const std::string& name) {
    const ValueId y = project(context, x, "w_" + name, multiply);
    if (!f.bias) return y;
    ir::Shape single = b.shape(x);
    single.back() = 1;
    const ValueId bias = context.master("b_" + name);  // [experts, out]
    const ValueId one = b.constant(1.0, single, context.dims.compute);
    return b.add(y, multiply(one, b.reshape(bias, {f.experts, 1, b.shape(bias)[1]})));
  };
  const auto gate = f.is_gated() ? std::optional(product(rows, "gate")) : std::nullopt;
  return product(activated(b, f, product(rows, "up"), gate), "down");
}

// Sequences while they are routed: with the all-gather dispatcher every owner of experts sees those of all owners.
Dim routed_sequences(const BuildContext& context) { return context.parallel.gathers_tokens ? Dim::data : Dim::batch; }

}  // namespace

ValueId activated(ops::Builder& b, const FeedForward& f, ValueId up, std::optional<ValueId> gate) {
  switch (f.activation) {
    case ActivationFunction::swiglu:
      return b.mul(b.silu(*gate), up);
    case ActivationFunction::geglu:
      return b.mul(gelu_tanh(b, *gate), up);
    case ActivationFunction::clamped_swiglu:
      return clamped_swiglu(b, f, up, *gate);
    case ActivationFunction::gelu:
      return gelu_tanh(b, up);
    case ActivationFunction::relu2:
      break;
  }
  return b.square(b.max(up, b.constant(0.0, {}, b.type(up).dtype)));
}

std::vector<Dim> routed_tokens(const BuildContext& context) {
  return {routed_sequences(context), Dim::tokens, Dim::whole};
}

namespace {

// The same where experts have owners. Rows are filled by the chips that route their tokens and travel to the owners of
// their experts and back; with the all-gather dispatcher each owner fills and reads its own.
ValueId run_on_owners(const BuildContext& context, ValueId rows, ValueId used) {
  if (context.parallel.axes_of(Dim::experts).empty()) return run_experts(context, rows, used);
  const std::vector<Dim> owners = {Dim::data, Dim::tokens, Dim::experts, Dim::whole, Dim::whole};
  const std::vector<Dim> filled = context.parallel.gathers_tokens
                                      ? owners
                                      : std::vector{Dim::batch, Dim::tokens, Dim::whole, Dim::whole, Dim::whole};
  // Rows could be filled anywhere: without saying where, they would be filled at their owners right away. On the way
  // back that holds for their gradients.
  rows = context.reshard(rows, filled, filled);
  if (filled != owners) rows = context.reshard(rows, filled, owners);
  used = context.reshard(used, {routed_sequences(context), Dim::tokens, Dim::whole},
                         {Dim::data, Dim::tokens, Dim::experts});
  rows = run_experts(context, rows, used);
  if (filled != owners) rows = context.reshard(rows, owners, filled);
  return context.reshard(rows, filled, filled);
}

void report(const BuildContext& context, const Routing& routing, ValueId logits, ValueId probabilities, ValueId lse) {
  if (context.routers == nullptr) return;
  ops::Builder& b = context.builder;
  const double tokens = static_cast<double>(context.dims.batch * context.dims.sequence);
  const ValueId counts = b.reduce_sum(b.convert(routing.requests, ir::DType::f32), {0, 1});
  const ValueId dropped = b.convert(b.sub(routing.requests, routing.used), ir::DType::f32);
  context.routers->push_back({.block = context.block,
                              .counts = counts,
                              .probability_sum = b.reduce_sum(probabilities, {0, 1}),
                              .square_lse_mean = b.scale(b.sum_all(b.square(lse)), 1.0 / tokens),
                              .dropped = b.reduce_sum(dropped, {0, 1}),
                              .logits = logits});
}

Routing route(const BuildContext& context, ValueId x) {
  ops::Builder& b = context.builder;
  ops::Scope scope(b, "router");
  const FeedForward& f = context.config.as<FeedForward>();
  ValueId logits = project(context, b.convert(x, ir::DType::f32), "router",
                           [&b](ValueId tokens, ValueId matrix) { return b.matmul(tokens, matrix); });
  if (f.bias) logits = b.add(logits, b.broadcast(context.master("router_bias"), b.shape(logits), {2}));
  const ValueId lse = log_sum_exp(b, logits);
  const ValueId probabilities = b.exp(b.sub(logits, b.broadcast(lse, b.shape(logits), {0, 1})));
  const ValueId scores = f.scoring == Scoring::sigmoid ? b.logistic(logits) : probabilities;
  const Routing routing =
      f.routing == RoutedBy::experts ? route_experts(context, scores) : route_tokens(context, scores);
  report(context, routing, logits, probabilities, lse);
  return routing;
}

}  // namespace

ValueId experts(const BuildContext& context, ValueId x) {
  ops::Builder& b = context.builder;
  const Routing routing = route(context, x);
  ValueId rows;
  {
    ops::Scope scope(b, "dispatch");
    const ValueId tokens = b.reshape(x, tokens_of(context).shape(context.dims.hidden));
    rows = b.one("dispatch", {tokens, routing.slot}, {{"shape", routing.rows}});
  }
  {
    ops::Scope scope(b, "experts");
    rows = run_on_owners(context, rows, routing.used);
  }
  ops::Scope scope(b, "combine");
  // Gradients of weights are partial sums where experts are split inside: few numbers here, many further back.
  const std::vector<Dim> chosen = {routed_sequences(context), Dim::tokens, Dim::whole, Dim::whole};
  const ValueId weights = context.reshard(routing.weights, chosen, chosen);
  const ValueId y = b.one("combine", {rows, routing.slot, b.convert(weights, context.dims.compute)});
  return b.reshape(y, b.shape(x));
}

}  // namespace megacpp::blocks
