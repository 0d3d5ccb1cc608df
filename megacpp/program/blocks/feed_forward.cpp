// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/feed_forward.h"

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/schema/limits.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/experts.h"

namespace megacpp::blocks {
namespace {

std::vector<ConfigKey> keys() {
  using namespace schema;  // ranges and limits
  return {
      setting<&FeedForward::activation>("activation", "Function between the matrices."),
      setting<&FeedForward::clamp_limit>("clamp_limit", above(0),
                                         "clamped_swiglu: largest gate, and largest size of u."),
      setting<&FeedForward::clamp_slope>("clamp_slope", above(0), "clamped_swiglu: slope inside of the sigmoid."),
      setting<&FeedForward::bias>("bias", any(), "Biases on all matrices, the router's too."),
      setting<&FeedForward::intermediate>("intermediate", between(1, kMaxWidth),
                                          "Inner width, of each expert when there are experts."),
      setting<&FeedForward::experts>("experts", between(0, kMaxParts), "Number of routed experts; 0 = dense."),
      setting<&FeedForward::top_k>("top_k", between(1, kMaxParts), "Experts per token."),
      setting<&FeedForward::routing>("routing", "Who chooses."),
      setting<&FeedForward::scoring>("scoring", "From router logits to scores."),
      setting<&FeedForward::renormalise>("renormalise", any(), "Divide the chosen scores by their sum."),
      setting<&FeedForward::routed_scale>("routed_scale", above(0), "Factor on the chosen scores after that."),
      setting<&FeedForward::expert_groups>("expert_groups", between(1, kMaxParts),
                                           "Equal groups of experts, each with the sum of its two best scores."),
      setting<&FeedForward::top_groups>("top_groups", between(1, kMaxParts),
                                        "Groups with the highest sums, out of which a token's experts are chosen."),
      setting<&FeedForward::selection_bias>(
          "selection_bias", any(),
          "A number per expert, added to its scores where experts are chosen; bias_rate has one too, and moves it."),
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

// Settings that need what is not there, each with whether it is given and what reads it.
void check_unread(const ConfigCheck& check, const FeedForward& e) {
  const FeedForward defaults;
  const auto require_unset = [&](bool is_given, const char* key, const char* reader) {
    MEGACPP_REQUIRE(!is_given, E1003,
                    {.where = check.at(key),
                     .got = fmt::format("{} without {}", key, reader),
                     .wanted = fmt::format("{}, which alone reads it", reader),
                     .next = fmt::format("remove {}", check.path(key))});
  };
  const bool is_clamped = e.activation == ActivationFunction::clamped_swiglu;
  require_unset(!is_clamped && e.clamp_limit != defaults.clamp_limit, "clamp_limit", "activation clamped_swiglu");
  require_unset(!is_clamped && e.clamp_slope != defaults.clamp_slope, "clamp_slope", "activation clamped_swiglu");
  const bool chooses = e.experts > 0 && e.routing == RoutedBy::tokens;
  const char* const reader = "experts that tokens choose";
  require_unset(!chooses && e.routed_scale != 1, "routed_scale", reader);
  require_unset(!chooses && e.expert_groups != 1, "expert_groups", reader);
  require_unset(!chooses && e.selection_bias, "selection_bias", reader);
}

void check_groups(const ConfigCheck& check, const FeedForward& e) {
  require_divides(check, {check.path("experts"), e.experts, check.path("expert_groups"), e.expert_groups});
  const int64_t of_group = e.experts / e.expert_groups;
  MEGACPP_REQUIRE(e.expert_groups == 1 || of_group >= 2, E1005,
                  {.where = check.at("expert_groups"),
                   .got = fmt::format("{} groups of {} expert", e.expert_groups, of_group),
                   .wanted = "groups of at least two experts, whose scores are added up",
                   .next = fmt::format("set {}: 1", check.path("expert_groups"))});
  MEGACPP_REQUIRE(e.top_groups <= e.expert_groups && e.top_groups * of_group >= e.top_k, E1005,
                  {.where = check.at("top_groups"),
                   .got = fmt::format("{} of {} groups, each of {} experts, for top_k {}", e.top_groups,
                                      e.expert_groups, of_group, e.top_k),
                   .wanted = "groups that there are, with experts enough for a token",
                   .next = fmt::format("set {}: {}", check.path("top_groups"), e.expert_groups)});
}

void check(const ConfigCheck& check) {
  const FeedForward& e = check.config.as<FeedForward>();
  check_unread(check, e);
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
  check_groups(check, e);
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

// The matrices of one feed-forward with their biases, dense or per expert (`lead` = {experts}).
class Matrices {
 public:
  Matrices(std::vector<Parameter>& list, const Dims& dims, const FeedForward& f) : list_(list), dims_(dims), f_(f) {}

  void add(const std::string& prefix, const ir::Shape& lead, int64_t intermediate) {
    const Dim inner = lead.empty() ? Dim::mlp : Dim::expert_mlp;
    const Side stream{dims_.hidden, Dim::whole}, inside{intermediate, inner};
    if (f_.is_gated()) add(prefix, "gate", lead, stream, inside, dims_.init_std);
    add(prefix, "up", lead, stream, inside, dims_.init_std);
    add(prefix, "down", lead, inside, stream, dims_.output_std);
  }

 private:
  struct Side {
    int64_t size;
    Dim dim;
  };

  void add(const std::string& prefix, const std::string& name, const ir::Shape& lead, Side in, Side out,
           double deviation) {
    const auto with_lead = [&lead](auto first, const auto& rest) {
      std::vector<typename std::decay_t<decltype(rest)>::value_type> all(lead.size(), first);
      all.insert(all.end(), rest.begin(), rest.end());
      return all;
    };
    const int64_t count = lead.empty() ? 0 : lead[0];
    list_.push_back({prefix + "w_" + name, with_lead(count, ir::Shape{in.size, out.size}),
                     with_lead(Dim::experts, std::vector{in.dim, out.dim}), Init::normal(deviation)});
    if (f_.bias)
      list_.push_back({prefix + "b_" + name, with_lead(count, ir::Shape{out.size}),
                       with_lead(Dim::experts, std::vector{out.dim}), Init::zeros(), ParameterKind::bias});
  }

  std::vector<Parameter>& list_;
  const Dims& dims_;
  const FeedForward& f_;
};

std::vector<Parameter> parameters(const Dims& dims, const Config& config) {
  const FeedForward& f = config.as<FeedForward>();
  std::vector<Parameter> list;
  Matrices matrices(list, dims, f);
  if (f.experts == 0) {
    matrices.add("", {}, f.intermediate);
    return list;
  }
  list.push_back({"router", {dims.hidden, f.experts}, {Dim::whole, Dim::whole}, Init::normal(dims.init_std)});
  if (f.bias) list.push_back({"router_bias", {f.experts}, {Dim::whole}, Init::zeros(), ParameterKind::bias});
  matrices.add("", {f.experts}, f.intermediate);
  if (f.shared_intermediate > 0) matrices.add("shared.", {}, f.shared_intermediate);
  if (f.has_selection_bias())
    list.push_back({.name = "expert_bias",
                    .shape = {f.experts},
                    .dims = {Dim::whole},
                    .init = Init::zeros(),
                    .kind = ParameterKind::bias,
                    .trainable = false,
                    .frozen = f.bias_rate == 0});
  return list;
}

// Up to the last product, whose bias joins where partial sums of it have ended.
ValueId dense(const BuildContext& context, ValueId x, const std::string& prefix) {
  const FeedForward& f = context.config.as<FeedForward>();
  const auto into = [&](const std::string& name) {
    const ValueId rows = project(context, x, prefix + "w_" + name);
    return f.bias ? add_bias(context, rows, prefix + "b_" + name) : rows;
  };
  const auto gate = f.is_gated() ? std::optional(into("gate")) : std::nullopt;
  return project(context, activated(context.builder, f, into("up"), gate), prefix + "w_down");
}

ValueId with_down_bias(const BuildContext& context, ValueId y, const std::string& prefix) {
  return context.config.as<FeedForward>().bias ? add_bias(context, y, prefix + "b_down") : y;
}

ValueId shared_expert(const BuildContext& context, ValueId x) {
  ops::Scope scope(context.builder, "shared");
  return dense(context, x, "shared.");
}

ValueId build(const BuildContext& context, ValueId x) {
  const FeedForward& f = context.config.as<FeedForward>();
  if (f.experts == 0) return with_down_bias(context, context.leave(dense(context, context.enter(x), "")), "");
  const std::vector<Dim> stream = {Dim::batch, Dim::stream, Dim::whole};
  const std::vector<Dim> mixer = {Dim::batch, Dim::sequence, Dim::whole};
  const std::vector<Dim> routed = routed_tokens(context);
  const ValueId tokens = context.reshard(x, stream, routed);
  ValueId y = experts(context, tokens);
  if (f.shared_intermediate == 0) return context.reshard(y, routed, stream);
  ops::Builder& b = context.builder;
  // Where both kinds of experts want the tokens alike, these travel once, and partial sums of both are added up as one.
  if (context.parallel.sharding(routed) == context.parallel.sharding(mixer))
    return with_down_bias(context, context.leave(b.add(y, shared_expert(context, tokens))), "shared.");
  y = context.reshard(y, routed, stream);
  return with_down_bias(context, b.add(y, context.leave(shared_expert(context, context.enter(x)))), "shared.");
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
