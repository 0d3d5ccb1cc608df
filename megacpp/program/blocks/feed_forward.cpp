// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/feed_forward.h"

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/schema/limits.h"
#include "megacpp/program/blocks/block.h"

namespace megacpp::blocks {
namespace {

std::vector<ConfigKey> keys() {
  using namespace schema;  // ranges and limits
  return {
      setting<&FeedForward::activation>("activation", "Function between the matrices."),
      setting<&FeedForward::intermediate>("intermediate", between(1, kMaxWidth),
                                          "Inner width, of each expert when there are experts."),
      setting<&FeedForward::experts>("experts", between(0, kMaxParts), "Number of routed experts; 0 = dense."),
      setting<&FeedForward::top_k>("top_k", between(1, kMaxParts), "Experts per token."),
      setting<&FeedForward::routing>("routing", "Who chooses."),
      setting<&FeedForward::scoring>("scoring", "From router logits to scores."),
      setting<&FeedForward::renormalise>("renormalise", any(), "Divide the chosen scores by their sum."),
      setting<&FeedForward::capacity_factor>(
          "capacity_factor", between(0, kMaxParts),
          "Tokens each expert takes of a sequence = factor x sequence x top_k / experts, rounded up; 0 = dropless."),
      setting<&FeedForward::shared_intermediate>("shared_intermediate", between(0, kMaxWidth),
                                                 "Inner width of the expert every token passes; 0 = none."),
      setting<&FeedForward::balance_loss>("balance_loss", at_least(0), "Weight of the auxiliary load-balance loss."),
      setting<&FeedForward::balance_over>("balance_over", "Where the load is counted."),
      setting<&FeedForward::z_loss>("z_loss", at_least(0),
                                    "Weight of the squared log-sum-exp of the router logits; 0 = off."),
      setting<&FeedForward::bias_rate>("bias_rate", at_least(0), "Step of the loss-free balancing bias; 0 = off."),
  };
}

void check_expert_choice(const ConfigCheck& check, const FeedForward& e) {
  const double largest = static_cast<double>(e.experts) / static_cast<double>(e.top_k);
  MEGACPP_REQUIRE(
      e.capacity_factor > 0 && e.capacity_factor <= largest, E1005,
      {.where = check.at("capacity_factor"),
       .got = fmt::format("{} with expert_choice, {} experts, top_k {}", e.capacity_factor, e.experts, e.top_k),
       .wanted = fmt::format("above 0 and at most {}: an expert cannot choose more tokens than there are", largest),
       .next = fmt::format("set {}: {}", check.path("capacity_factor"), std::min(1.0, largest))});
  MEGACPP_REQUIRE(
      e.bias_rate == 0, E1003,
      {.where = check.at("bias_rate"),
       .got = fmt::format("{} with expert_choice", e.bias_rate),
       .wanted = "0: expert choice is balanced by itself",
       .next = fmt::format("set {}: 0, or {}: token_choice", check.path("bias_rate"), check.path("routing"))});
}

void check(const ConfigCheck& check) {
  const FeedForward& e = check.config.as<FeedForward>();
  if (e.experts == 0) {
    MEGACPP_REQUIRE(
        e.shared_intermediate == 0, E1003,
        {.where = check.at("shared_intermediate"),
         .got = fmt::format("a shared expert of width {} in a dense block", e.shared_intermediate),
         .wanted = "0 when experts is 0",
         .next = fmt::format("set {}, or widen {} instead", check.path("experts"), check.path("intermediate"))});
    return;
  }
  MEGACPP_REQUIRE(e.top_k <= e.experts, E1005,
                  {.where = check.at("top_k"),
                   .got = fmt::format("top_k {} of {} experts", e.top_k, e.experts),
                   .wanted = fmt::format("between 1 and {}", e.experts),
                   .next = fmt::format("set {}: {}", check.path("top_k"), e.experts)});
  if (e.routing == RoutedBy::experts) check_expert_choice(check, e);
}

Router router(const FeedForward& e) {
  if (e.experts == 0) return {};
  return {.experts = e.experts,
          .top_k = e.top_k,
          .balance_loss = e.balance_loss,
          .balance_over_model = e.balance_over == BalanceOver::model,
          .z_loss = e.z_loss,
          .bias_rate = e.bias_rate,
          .bias_name = "expert_bias"};
}

Traits traits(const Config& config) {
  const FeedForward& e = config.as<FeedForward>();
  Traits traits{
      .widths = {{"intermediate", e.intermediate, 1, std::max<int64_t>(e.experts, 1)},
                 {"shared_intermediate", e.shared_intermediate}},
      .splits = {{.key = "intermediate", .count = e.intermediate, .dim = Dim::mlp, .how = Split::How::padded}},
      .router = router(e),
      .selective_is_cheap = e.experts == 0};
  const auto add = [&traits](bool is_on, const char* word) {
    if (is_on) traits.features.emplace_back(word);
  };
  add(e.experts > 0 && e.balance_loss > 0, "balance_loss");
  add(e.experts > 0 && e.z_loss > 0, "router_z_loss");
  add(e.experts > 0 && e.bias_rate > 0, "balance_bias");
  return traits;
}

// A feed-forward looks at one token at a time.
std::vector<StatePort> state(const Dims&, const Config&) { return {}; }

std::vector<CollectiveAdvice> advice() {
  static constexpr auto kOver = [](const std::vector<std::string>& axes, std::string_view axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  return {{"loads of the experts",
           [](std::string_view op, const std::vector<std::string>& axes) {
             return op == "all_reduce" && !kOver(axes, "model");
           },
           kNothingRemovesIt, "loads and balance losses are those of all tokens"},
          {"tokens to their experts and back",
           [](std::string_view, const std::vector<std::string>& axes) { return kOver(axes, "expert"); }, kEveryDegree,
           "then every chip holds all experts"}};
}

// Weights of one feed-forward, dense or per expert (`lead` = {experts}).
void add_weights(std::vector<Parameter>& list, const std::string& prefix, const ir::Shape& lead, const Dims& dims,
                 int64_t intermediate, bool gated) {
  const auto shape = [&lead](int64_t in, int64_t out) {
    ir::Shape s = lead;
    s.push_back(in);
    s.push_back(out);
    return s;
  };
  const std::vector<Dim> into =
      lead.empty() ? std::vector{Dim::whole, Dim::mlp} : std::vector{Dim::experts, Dim::whole, Dim::expert_mlp};
  const std::vector<Dim> out =
      lead.empty() ? std::vector{Dim::mlp, Dim::whole} : std::vector{Dim::experts, Dim::expert_mlp, Dim::whole};
  if (gated) list.push_back({prefix + "w_gate", shape(dims.hidden, intermediate), into, Init::normal(dims.init_std)});
  list.push_back({prefix + "w_up", shape(dims.hidden, intermediate), into, Init::normal(dims.init_std)});
  list.push_back({prefix + "w_down", shape(intermediate, dims.hidden), out, Init::normal(dims.output_std)});
}

std::vector<Parameter> parameters(const Dims& dims, const Config& config) {
  const FeedForward& f = config.as<FeedForward>();
  std::vector<Parameter> list;
  if (f.experts == 0) {
    add_weights(list, "", {}, dims, f.intermediate, f.is_gated());
    return list;
  }
  list.push_back({"router", {dims.hidden, f.experts}, {Dim::whole, Dim::whole}, Init::normal(dims.init_std)});
  add_weights(list, "", {f.experts}, dims, f.intermediate, f.is_gated());
  if (f.shared_intermediate > 0) add_weights(list, "shared.", {}, dims, f.shared_intermediate, f.is_gated());
  if (f.bias_rate > 0)
    list.push_back({"expert_bias", {f.experts}, {Dim::whole}, Init::zeros(), ParameterKind::bias, false});
  return list;
}

// The nonlinearity between the projections. `gate` is ignored by relu^2.
ValueId activated(ops::Builder& b, ValueId up, std::optional<ValueId> gate) {
  if (gate) return b.mul(b.silu(*gate), up);
  return b.square(b.max(up, b.constant(0.0, {}, b.type(up).dtype)));
}

ValueId dense(const BuildContext& context, ValueId x, const std::string& prefix) {
  const bool gated = context.config.as<FeedForward>().is_gated();
  const auto gate = gated ? std::optional(project(context, x, prefix + "w_gate")) : std::nullopt;
  return project(context, activated(context.builder, project(context, x, prefix + "w_up"), gate), prefix + "w_down");
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

Routing route_tokens(const BuildContext& context, ValueId scores) {
  ops::Builder& b = context.builder;
  const FeedForward& f = context.config.as<FeedForward>();
  const bool biased = f.bias_rate > 0;
  // The bias steers which experts are chosen, never how much they count.
  const ValueId selection =
      biased ? b.add(scores, b.broadcast(context.master("expert_bias"), b.shape(scores), {2})) : scores;
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

// The experts' own feed-forward on the dispatched rows. Only rows in use are multiplied.
ValueId run_experts(const BuildContext& context, ValueId rows, ValueId used) {
  const FeedForward& f = context.config.as<FeedForward>();
  const auto product = [&](ValueId x, const std::string& weight) {
    return project(context, x, weight, [&](ValueId inputs, ValueId matrices) {
      return context.builder.one("ragged_dot", {inputs, context.builder.convert(matrices, context.dims.compute), used},
                                 {{"transpose_w", int64_t{0}}});
    });
  };
  const auto gate = f.is_gated() ? std::optional(product(rows, "w_gate")) : std::nullopt;
  return product(activated(context.builder, product(rows, "w_up"), gate), "w_down");
}

// Sequences while they are routed: with the all-gather dispatcher every owner of experts sees those of all owners.
Dim routed_sequences(const BuildContext& context) { return context.parallel.gathers_tokens ? Dim::data : Dim::batch; }

std::vector<Dim> routed_tokens(const BuildContext& context) {
  return {routed_sequences(context), Dim::tokens, Dim::whole};
}

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
  const ValueId logits = project(context, b.convert(x, ir::DType::f32), "router",
                                 [&b](ValueId tokens, ValueId matrix) { return b.matmul(tokens, matrix); });
  const ValueId lse = log_sum_exp(b, logits);
  const ValueId probabilities = b.exp(b.sub(logits, b.broadcast(lse, b.shape(logits), {0, 1})));
  const ValueId scores = f.scoring == Scoring::sigmoid ? b.logistic(logits) : probabilities;
  const Routing routing =
      f.routing == RoutedBy::experts ? route_experts(context, scores) : route_tokens(context, scores);
  report(context, routing, logits, probabilities, lse);
  return routing;
}

// x is sharded as it is routed, and so is the result, which may be partial sums.
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

ValueId shared_expert(const BuildContext& context, ValueId x) {
  ops::Scope scope(context.builder, "shared");
  return dense(context, x, "shared.");
}

ValueId build(const BuildContext& context, ValueId x) {
  const FeedForward& f = context.config.as<FeedForward>();
  if (f.experts == 0) return context.leave(dense(context, context.enter(x), ""));
  const std::vector<Dim> stream = {Dim::batch, Dim::stream, Dim::whole};
  const std::vector<Dim> mixer = {Dim::batch, Dim::sequence, Dim::whole};
  const std::vector<Dim> routed = routed_tokens(context);
  const ValueId tokens = context.reshard(x, stream, routed);
  ValueId y = experts(context, tokens);
  if (f.shared_intermediate == 0) return context.reshard(y, routed, stream);
  ops::Builder& b = context.builder;
  // Where both kinds of experts want the tokens alike, these travel once, and partial sums of both are added up as one.
  if (context.parallel.sharding(routed) == context.parallel.sharding(mixer))
    return context.leave(b.add(y, shared_expert(context, tokens)));
  y = context.reshard(y, routed, stream);
  return b.add(y, context.leave(shared_expert(context, context.enter(x))));
}

}  // namespace

BlockDef feed_forward_block() {
  return {.letter = 'E',
          .name = "feed_forward",
          .title = "feed-forward",
          .defaults = Config::of(FeedForward{}),
          .keys = keys(),
          .check = check,
          .traits = traits,
          .parameters = parameters,
          .build = build,
          .state = state,
          .advice = advice()};
}

}  // namespace megacpp::blocks
