// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "megacpp/core/base/error.h"
#include "megacpp/core/schema/limits.h"
#include "megacpp/program/blocks/block.h"
#include "megacpp/program/blocks/rope.h"

namespace megacpp::blocks {
namespace {

std::vector<ConfigKey> keys() {
  using namespace schema;  // ranges and limits
  return {
      setting<&Attention::heads>("heads", between(1, kMaxParts), "Query heads."),
      setting<&Attention::kv_heads>("kv_heads", between(1, kMaxParts), "Key and value heads; divides the query heads."),
      setting<&Attention::head_dim>("head_dim", between(1, kMaxParts), "Width of one head; even with rope."),
      setting<&Attention::scale>("scale", at_least(0), "Factor on the scores; 0 = 1 / sqrt(head_dim)."),
      setting<&Attention::softcap>("softcap", at_least(0),
                                   "Scores become softcap tanh(score / softcap) ahead of the mask; 0 = off."),
      setting<&Attention::rope>("rope", any(), "Rotary position embedding."),
      setting<&Attention::rope_theta>("rope_theta", above(0), "Base of the rotary wavelengths."),
      setting<&Attention::rotary_dim>("rotary_dim", between(0, kMaxParts),
                                      "First channels of a head that rope turns, an odd one with the next; 0 = all."),
      setting<&Attention::rope_scaling>("rope_scaling",
                                        "Which wavelengths are rope_factor times as long, for longer contexts."),
      setting<&Attention::rope_factor>("rope_factor", at_least(1), "Factor of rope_scaling."),
      setting<&Attention::rope_original_length>(
          "rope_original_length", between(0, kMaxTokens),
          "rope_scaling llama3 and yarn: tokens of the context that turns are counted over."),
      setting<&Attention::rope_slow_turns>("rope_slow_turns", above(0),
                                           "llama3 and yarn: channels that turn no more often are stretched in full."),
      setting<&Attention::rope_fast_turns>(
          "rope_fast_turns", at_least(0),
          "llama3 and yarn: channels that turn no less often stay as they are; 0 = 4 for llama3, 32 for yarn."),
      setting<&Attention::rope_whole_channels>("rope_whole_channels", any(),
                                               "yarn: round the places of slow and fast turns to whole channels."),
      setting<&Attention::rope_amplitude>("rope_amplitude", at_least(0),
                                          "yarn: factor on turned queries and keys; 0 = 0.1 ln(rope_factor) + 1."),
      setting<&Attention::qk_norm>("qk_norm", any(), "RMS norm on queries and keys before rope."),
      setting<&Attention::qk_norm_over>("qk_norm_over", "What qk_norm takes the mean square of."),
      setting<&Attention::qkv_bias>("qkv_bias", any(), "Biases on queries, keys and values."),
      setting<&Attention::out_bias>("out_bias", any(), "Bias on the output."),
      setting<&Attention::sinks>("sinks", any(),
                                 "One learned score per head beside those of the keys: it takes weight and adds no "
                                 "value."),
      setting<&Attention::window>("window", between(0, kMaxTokens),
                                  "Tokens a query sees, itself included; 0 = all before it."),
      setting<&Attention::sparse_block>("sparse_block", between(0, kMaxTokens),
                                        "Tokens per block of the block-sparse mask; 0 = dense."),
      setting<&Attention::sparse_local>("sparse_local", between(0, kMaxTokens),
                                        "Nearest blocks a query block sees, its own included."),
      setting<&Attention::sparse_global>("sparse_global", between(0, kMaxTokens),
                                         "First blocks of the sequence that every query sees."),
      setting<&Attention::document_mask>("document_mask", any(), "Keep attention inside each packed document."),
  };
}

void check_sparse(const ConfigCheck& check, const Attention& a) {
  if (a.sparse_block == 0) {
    MEGACPP_REQUIRE(
        a.sparse_local == 0 && a.sparse_global == 0, E1003,
        {.where = check.at("sparse_block"),
         .got = fmt::format("sparse_local {}, sparse_global {}, but no block size", a.sparse_local, a.sparse_global),
         .wanted = "sparse_block above 0",
         .next = fmt::format("set {}: 64", check.path("sparse_block"))});
    return;
  }
  MEGACPP_REQUIRE(a.sparse_local >= 1, E1003,
                  {.where = check.at("sparse_local"),
                   .got = std::to_string(a.sparse_local),
                   .wanted = "at least 1: a token must see its own block",
                   .next = fmt::format("set {}: 1", check.path("sparse_local"))});
  require_divides(check, {"train.sequence", check.sequence, check.path("sparse_block"), a.sparse_block});
}

void check(const ConfigCheck& check) {
  const Attention& a = check.config.as<Attention>();
  require_divides(check, {check.path("heads"), a.heads, check.path("kv_heads"), a.kv_heads});
  check_rope(check, a);
  MEGACPP_REQUIRE(a.qk_norm || a.qk_norm_over == NormOver::head, E1003,
                  {.where = check.at("qk_norm_over"),
                   .got = "heads without qk_norm",
                   .wanted = "qk_norm, which reads it",
                   .next = fmt::format("set {}: true", check.path("qk_norm"))});
  check_sparse(check, a);
}

Traits traits(const Config& config) {
  const Attention& a = config.as<Attention>();
  Traits traits{.widths = {{"heads", a.heads, a.head_dim}},
                .splits = {{.key = "heads", .count = a.heads, .dim = Dim::heads, .swapped = Dim::whole_heads},
                           {.key = "kv_heads",
                            .count = a.kv_heads,
                            .dim = Dim::kv_heads,
                            .how = Split::How::shared,
                            .swapped = Dim::whole_kv}},
                .ring_elements = 2 * a.kv_heads * a.head_dim,
                .reads_documents = a.document_mask};
  if (a.document_mask) traits.features = {"document_mask"};
  return traits;
}

// Keys and values of all tokens that those of a step can see, the last of them and the first. Block-sparse masks see
// the first blocks at any distance.
std::vector<StatePort> state(const Dims& dims, const Config& config) {
  const Attention& a = config.as<Attention>();
  const int64_t seen = a.window > 0 ? std::min(a.window + dims.step_tokens - 1, dims.sequence) : dims.sequence;
  const ir::TensorType cache{dims.compute, {dims.batch, seen, a.kv_heads, a.head_dim}};
  const std::vector<Dim> by_heads = {Dim::batch, Dim::whole, Dim::kv_heads, Dim::whole};
  return {{"keys", cache, by_heads}, {"values", cache, by_heads}};
}

bool is_over_context(const std::vector<std::string>& axes) {
  return std::find(axes.begin(), axes.end(), "context") != axes.end();
}

std::vector<CollectiveAdvice> advice() {
  return {{"keys and values around the ring",
           [](std::string_view op, const std::vector<std::string>& axes) {
             return op == "permute" && is_over_context(axes);
           },
           "layout.context_parallel=1", "layout.context_attention=alltoall swaps heads for tokens instead"},
          {"heads swapped for tokens",
           [](std::string_view op, const std::vector<std::string>& axes) {
             return op == "all_to_all" && is_over_context(axes);
           },
           "layout.context_parallel=1", "layout.context_attention=ring passes keys and values around instead"}};
}

std::vector<Parameter> parameters(const Dims& dims, const Config& config) {
  const Attention& a = config.as<Attention>();
  const int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
  std::vector<Parameter> list = {{"wq", {dims.hidden, q}, {Dim::whole, Dim::heads}, Init::normal(dims.init_std)},
                                 {"wk", {dims.hidden, kv}, {Dim::whole, Dim::kv_heads}, Init::normal(dims.init_std)},
                                 {"wv", {dims.hidden, kv}, {Dim::whole, Dim::kv_heads}, Init::normal(dims.init_std)},
                                 {"wo", {q, dims.hidden}, {Dim::heads, Dim::whole}, Init::normal(dims.output_std)}};
  if (a.qk_norm) {
    const bool is_whole = a.qk_norm_over == NormOver::heads;
    const Init gain = dims.first_gain();
    list.push_back({"q_norm", {is_whole ? q : a.head_dim}, {Dim::whole}, gain, ParameterKind::norm});
    list.push_back({"k_norm", {is_whole ? kv : a.head_dim}, {Dim::whole}, gain, ParameterKind::norm});
  }
  if (a.qkv_bias) {
    list.push_back({"bq", {q}, {Dim::heads}, Init::zeros(), ParameterKind::bias});
    list.push_back({"bk", {kv}, {Dim::kv_heads}, Init::zeros(), ParameterKind::bias});
    list.push_back({"bv", {kv}, {Dim::kv_heads}, Init::zeros(), ParameterKind::bias});
  }
  if (a.out_bias) list.push_back({"bo", {dims.hidden}, {Dim::whole}, Init::zeros(), ParameterKind::bias});
  if (a.sinks) list.push_back({"sinks", {a.heads}, {Dim::heads}, Init::zeros(), ParameterKind::bias});
  return list;
}

// One of queries, keys and values: how many heads of which dimension, and the suffix of its parameters.
struct Projection {
  std::string name;
  int64_t heads;
  Dim dim;
};

// The mean square over all heads needs those of other chips.
ValueId normed_over_heads(const BuildContext& context, ValueId x, const Projection& to) {
  const std::vector<Dim> split = {Dim::batch, Dim::sequence, to.dim}, whole = {Dim::batch, Dim::sequence, Dim::whole};
  return context.reshard(context.norm(context.reshard(x, split, whole), to.name + "_norm"), whole, split);
}

// x[batch, sequence, hidden] -> [batch, sequence, heads, head_dim]
ValueId heads_of(const BuildContext& context, ValueId x, const Projection& to) {
  const Attention& a = context.config.as<Attention>();
  ValueId rows = project(context, x, "w" + to.name);
  if (a.qkv_bias) rows = add_bias(context, rows, "b" + to.name);
  const bool is_normed = a.qk_norm && to.name != "v";
  if (is_normed && a.qk_norm_over == NormOver::heads) rows = normed_over_heads(context, rows, to);
  rows = context.builder.reshape(rows, {context.dims.batch, context.dims.sequence, to.heads, a.head_dim});
  if (is_normed && a.qk_norm_over == NormOver::head) rows = context.norm(rows, to.name + "_norm");
  if (a.rope && to.name != "v")
    rows = context.builder.one("rope", {rows, context.shared.at("rope_cos"), context.shared.at("rope_sin")});
  return rows;
}

ir::Attrs attributes(const Attention& a) {
  ir::Attrs attrs = {{"scale", a.scale > 0 ? a.scale : 1.0 / std::sqrt(static_cast<double>(a.head_dim))},
                     {"causal", int64_t{1}},
                     {"window", a.window},
                     {"sparse_block", a.sparse_block},
                     {"sparse_local", a.sparse_local},
                     {"sparse_global", a.sparse_global}};
  if (a.softcap > 0) attrs.set("softcap", a.softcap);
  return attrs;
}

// Keys or values of the tokens before and of these, each in its slot: [batch, slots, kv_heads, head_dim]
ValueId remember(const BuildContext& context, const std::string& port, ValueId own) {
  ops::Builder& b = context.builder;
  const ValueId before = context.decoding->state.at(port);
  const ValueId slots = context.decoding->slots(b.shape(before)[1]);
  const ValueId after = b.one("cache_update", {before, own, slots, *context.positions});
  context.decoding->next[port] = after;
  return after;
}

// Scores of heads that no key has, behind all other operands.
void add_sinks(const BuildContext& context, bool swaps, std::vector<ValueId>& operands, ir::Attrs& attrs) {
  if (!context.config.as<Attention>().sinks) return;
  attrs.set("sinks", int64_t{1});
  const ValueId sinks = context.master("sinks");
  operands.push_back(swaps ? context.reshard(sinks, {Dim::heads}, {Dim::whole_heads}) : sinks);
}

// Queries and keys are the same tokens, so what describes them stands for both sides. Attributes only say what is
// there.
void add_tokens(const BuildContext& context, std::vector<ValueId>& operands, ir::Attrs& attrs) {
  const auto add = [&](const std::string& flag, ValueId of_tokens) {
    attrs.set(flag, int64_t{1});
    operands.insert(operands.end(), {of_tokens, of_tokens});
  };
  if (context.config.as<Attention>().document_mask && context.segments) add("documents", *context.segments);
  if (context.decoding != nullptr) {
    attrs.set("placed", int64_t{1});
    operands.insert(operands.end(),
                    {*context.positions, context.decoding->slots(context.builder.shape(operands[1])[1])});
  } else if (context.positions) {
    add("placed", *context.positions);
  }
}

// Without a ring, chips that split the sequence swap tokens for heads, so that each sees whole sequences.
bool swaps_heads_for_tokens(const Parallel& parallel) {
  return !parallel.ring_attention && !parallel.axes_of(Dim::sequence).empty();
}

ValueId build(const BuildContext& context, ValueId stream) {
  ops::Builder& b = context.builder;
  const Attention& a = context.config.as<Attention>();
  const ValueId x = context.enter(stream);
  std::vector<ValueId> operands;
  {
    ops::Scope scope(b, "qkv");
    const ValueId q = heads_of(context, x, {"q", a.heads, Dim::heads});
    const ValueId k = heads_of(context, x, {"k", a.kv_heads, Dim::kv_heads});
    const ValueId v = heads_of(context, x, {"v", a.kv_heads, Dim::kv_heads});
    operands = {q, k, v};
    if (context.decoding != nullptr) {
      operands[1] = remember(context, "keys", k);
      operands[2] = remember(context, "values", v);
    }
  }
  ValueId out;
  {
    ops::Scope scope(b, "core");
    const bool swaps = swaps_heads_for_tokens(context.parallel);
    const std::vector<Dim> q_tokens = {Dim::batch, Dim::sequence, Dim::heads, Dim::whole};
    const std::vector<Dim> q_heads = {Dim::batch, Dim::whole, Dim::whole_heads, Dim::whole};
    if (swaps) {
      operands[0] = context.reshard(operands[0], q_tokens, q_heads);
      for (const size_t i : {size_t{1}, size_t{2}})
        operands[i] = context.reshard(operands[i], {Dim::batch, Dim::sequence, Dim::kv_heads, Dim::whole},
                                      {Dim::batch, Dim::whole, Dim::whole_kv, Dim::whole});
    }
    ir::Attrs attrs = attributes(a);
    add_tokens(context, operands, attrs);
    add_sinks(context, swaps, operands, attrs);
    out = b.node("attention", operands, attrs)[0];
    if (swaps) out = context.reshard(out, q_heads, q_tokens);
  }
  ops::Scope scope(b, "out");
  const ValueId rows = b.reshape(out, {context.dims.batch, context.dims.sequence, a.heads * a.head_dim});
  const ValueId y = context.leave(project(context, rows, "wo"));
  // Added where partial sums have ended: it must count once.
  return a.out_bias ? add_bias(context, y, "bo") : y;
}

}  // namespace

BlockDef attention_block() {
  return {.letter = 'A',
          .name = "attention",
          .title = "attention",
          .defaults = Config::of(Attention{}),
          .keys = keys(),
          .check = check,
          .traits = traits,
          .parameters = parameters,
          .build = build,
          .shared = {.scope = "rope", .build = rope_tables},
          .state = state,
          .advice = advice()};
}

}  // namespace megacpp::blocks
