// SPDX-License-Identifier: Apache-2.0
#include "megacpp/blocks/feed_forward.h"

#include "megacpp/blocks/block.h"

namespace megacpp::blocks {
namespace {

// Weights of one feed-forward, dense or per expert (`lead` = {experts}).
void add_weights(std::vector<Parameter>& list, const std::string& prefix, const ir::Shape& lead, const Dims& dims,
                 int64_t intermediate, bool gated) {
  const auto shape = [&lead](int64_t in, int64_t out) {
    ir::Shape s = lead;
    s.push_back(in);
    s.push_back(out);
    return s;
  };
  const std::vector<Dim> into = lead.empty() ? std::vector{Dim::whole, Dim::mlp}
                                             : std::vector{Dim::experts, Dim::whole, Dim::expert_mlp};
  const std::vector<Dim> out = lead.empty() ? std::vector{Dim::mlp, Dim::whole}
                                            : std::vector{Dim::experts, Dim::expert_mlp, Dim::whole};
  if (gated) list.push_back({prefix + "w_gate", shape(dims.hidden, intermediate), into, Init::normal(dims.init_std)});
  list.push_back({prefix + "w_up", shape(dims.hidden, intermediate), into, Init::normal(dims.init_std)});
  list.push_back({prefix + "w_down", shape(intermediate, dims.hidden), out, Init::normal(dims.output_std)});
}

std::vector<Parameter> parameters(const Dims& dims, const Configs& configs) {
  const FeedForward& f = configs.feed_forward;
  std::vector<Parameter> list;
  if (f.experts == 0) {
    add_weights(list, "", {}, dims, f.intermediate, f.is_gated());
    return list;
  }
  list.push_back({"router", {dims.hidden, f.experts}, {Dim::whole, Dim::whole}, Init::normal(dims.init_std)});
  add_weights(list, "", {f.experts}, dims, f.intermediate, f.is_gated());
  if (f.shared_intermediate > 0) add_weights(list, "shared.", {}, dims, f.shared_intermediate, f.is_gated());
  if (f.bias_rate > 0) list.push_back({"expert_bias", {f.experts}, {Dim::whole}, Init::zeros(), false, false});
  return list;
}

// The nonlinearity between the projections. `gate` is ignored by relu^2.
ValueId activated(ops::Builder& b, ValueId up, std::optional<ValueId> gate) {
  if (gate) return b.mul(b.silu(*gate), up);
  return b.square(b.max(up, b.constant(0.0, {}, b.type(up).dtype)));
}

ValueId dense(const BuildContext& context, ValueId x, const std::string& prefix) {
  const bool gated = context.configs.feed_forward.is_gated();
  const auto gate = gated ? std::optional(project(context, x, prefix + "w_gate")) : std::nullopt;
  return project(context, activated(context.builder, project(context, x, prefix + "w_up"), gate), prefix + "w_down");
}

// log(sum(exp)) over the last dimension; the cross-entropy kernel computes just that for a masked label.
ValueId log_sum_exp(ops::Builder& b, ValueId logits) {
  const ValueId masked = b.constant(-1.0, {b.type(logits).dim(0)}, ir::DType::i32);
  return b.node("cross_entropy", {logits, masked})[1];
}

struct Routing {
  ValueId slot;     // i32[tokens, choices]
  ValueId weights;  // f32[tokens, choices]
  ValueId counts;   // i32[experts]
  int64_t rows;     // of the dispatched buffer
};

Routing route_tokens(const BuildContext& context, ValueId scores, int64_t tokens) {
  ops::Builder& b = context.builder;
  const FeedForward& f = context.configs.feed_forward;
  const bool biased = f.bias_rate > 0;
  // The bias steers which experts are chosen, never how much they count.
  const ValueId selection =
      biased ? b.add(scores, b.broadcast(context.master("expert_bias"), b.shape(scores), {1})) : scores;
  const std::vector<ValueId> top = b.node("top_k", {selection}, {{"k", f.top_k}});
  ValueId weights = top[0];
  if (biased) {
    const ValueId bias = b.one("take", {b.reshape(context.master("expert_bias"), {f.experts, 1}), top[1]});
    weights = b.sub(weights, b.reshape(bias, {tokens, f.top_k}));
  }
  if (f.renormalise) {
    const ValueId sum = b.offset(b.reduce_sum(weights, {1}), 1e-20);
    weights = b.div(weights, b.broadcast(sum, b.shape(weights), {0}));
  }
  const int64_t capacity = f.is_dropless() ? 0 : f.capacity(tokens);
  const std::vector<ValueId> placed =
      b.node("token_choice_slots", {top[1]}, {{"num_experts", f.experts}, {"capacity", capacity}});
  return {placed[0], weights, placed[1], f.is_dropless() ? tokens * f.top_k : f.experts * capacity};
}

Routing route_experts(const BuildContext& context, ValueId scores, int64_t tokens) {
  ops::Builder& b = context.builder;
  const FeedForward& f = context.configs.feed_forward;
  const int64_t capacity = f.capacity(tokens);
  const ValueId slot = b.one("expert_choice_slots", {scores}, {{"capacity", capacity}});
  const ValueId counts = b.constant(static_cast<double>(capacity), {f.experts}, ir::DType::i32);
  return {slot, scores, counts, f.experts * capacity};
}

// The experts' own feed-forward on the dispatched rows [rows, hidden]. Only rows in use are multiplied.
ValueId run_experts(const BuildContext& context, ValueId rows, const Routing& routing) {
  const FeedForward& f = context.configs.feed_forward;
  const int64_t capacity = f.is_dropless() ? 0 : routing.rows / f.experts;
  const auto product = [&](ValueId x, const std::string& weight) {
    return context.builder.one("ragged_dot", {x, context.weight(weight), routing.counts},
                               {{"transpose_w", int64_t{0}}, {"capacity", capacity}});
  };
  const auto gate = f.is_gated() ? std::optional(product(rows, "w_gate")) : std::nullopt;
  return product(activated(context.builder, product(rows, "w_up"), gate), "w_down");
}

void report(const BuildContext& context, const Routing& routing, ValueId logits, ValueId probabilities, ValueId lse) {
  if (context.routers == nullptr) return;
  ops::Builder& b = context.builder;
  const FeedForward& f = context.configs.feed_forward;
  const double tokens = static_cast<double>(b.type(logits).dim(0));
  const ValueId counts = b.convert(routing.counts, ir::DType::f32);
  const double room =
      f.is_dropless() ? tokens * static_cast<double>(f.experts) : static_cast<double>(routing.rows / f.experts);
  const ValueId beyond_room = b.offset(counts, -room);
  const ValueId zero = b.constant(0.0);
  const ValueId dropped = b.sum_all(b.max(beyond_room, zero));
  context.routers->push_back({.block = context.block,
                              .counts = counts,
                              .probability_sum = b.reduce_sum(probabilities, {0}),
                              .square_lse_mean = b.scale(b.sum_all(b.square(lse)), 1.0 / tokens),
                              .dropped = dropped,
                              .logits = logits});
}

ValueId experts(const BuildContext& context, ValueId x) {
  ops::Builder& b = context.builder;
  const FeedForward& f = context.configs.feed_forward;
  const int64_t tokens = b.type(x).dim(0);
  std::optional<Routing> routing;
  {
    ops::Scope scope(b, "router");
    const ValueId logits = b.matmul(b.convert(x, ir::DType::f32), context.master("router"));
    const ValueId lse = log_sum_exp(b, logits);
    const ValueId probabilities = b.exp(b.sub(logits, b.broadcast(lse, b.shape(logits), {0})));
    const ValueId scores = f.scoring == "sigmoid" ? b.logistic(logits) : probabilities;
    routing =
        f.routing == "expert_choice" ? route_experts(context, scores, tokens) : route_tokens(context, scores, tokens);
    report(context, *routing, logits, probabilities, lse);
  }
  ValueId rows;
  {
    ops::Scope scope(b, "dispatch");
    rows = b.one("dispatch", {x, routing->slot}, {{"shape", ir::Shape{routing->rows, context.dims.hidden}}});
  }
  {
    ops::Scope scope(b, "experts");
    rows = run_experts(context, rows, *routing);
  }
  ops::Scope scope(b, "combine");
  return b.one("combine", {rows, routing->slot, b.convert(routing->weights, context.dims.compute)});
}

ValueId build(const BuildContext& context, ValueId input) {
  ops::Builder& b = context.builder;
  const FeedForward& f = context.configs.feed_forward;
  if (f.experts == 0) return dense(context, input, "");
  const ValueId x = b.reshape(input, {context.dims.batch * context.dims.sequence, context.dims.hidden});
  ValueId y = experts(context, x);
  if (f.shared_intermediate > 0) {
    ops::Scope scope(b, "shared");
    y = b.add(y, dense(context, x, "shared."));
  }
  return b.reshape(y, b.shape(input));
}

}  // namespace

BlockDef feed_forward_block() {
  return {.letter = 'E', .name = "feed_forward", .parameters = parameters, .build = build};
}

}  // namespace megacpp::blocks
