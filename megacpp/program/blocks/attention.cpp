// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/blocks/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "megacpp/core/base/error.h"
#include "megacpp/core/schema/limits.h"
#include "megacpp/program/blocks/block.h"

namespace megacpp::blocks {
namespace {

std::vector<ConfigKey> keys() {
  using namespace schema;  // ranges and limits
  return {
      setting<&Attention::heads>("heads", between(1, kMaxParts), "Query heads."),
      setting<&Attention::kv_heads>("kv_heads", between(1, kMaxParts), "Key and value heads; divides the query heads."),
      setting<&Attention::head_dim>("head_dim", between(1, kMaxParts), "Width of one head; even with rope."),
      setting<&Attention::rope>("rope", any(), "Rotary position embedding."),
      setting<&Attention::rope_theta>("rope_theta", above(0), "Base of the rotary wavelengths."),
      setting<&Attention::qk_norm>("qk_norm", any(), "RMS norm on each query and key head before rope."),
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
  MEGACPP_REQUIRE(
      !a.rope || a.head_dim % 2 == 0, E1005,
      {.where = check.at("head_dim"),
       .got = fmt::format("head_dim {} with rope", a.head_dim),
       .wanted = "an even head_dim: rope turns pairs of channels",
       .next = fmt::format("set {}: {}, or {}: false", check.path("head_dim"), a.head_dim + 1, check.path("rope"))});
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

// Of the tokens that the mixers of a chip hold: angles of others would be computed in vain. f32 of `shape`
ValueId own_positions(const BuildContext& context, const ir::Shape& shape) {
  ops::Builder& b = context.builder;
  const ValueId own = context.reshard(*context.positions, {Dim::whole}, {Dim::sequence});
  return b.broadcast(b.convert(own, ir::DType::f32), shape, {0});
}

// Rotation angles position * theta^(-i / (d/2)): f32[sequence, head_dim / 2]
std::map<std::string, ValueId> rope_tables(const BuildContext& context) {
  const Attention& a = context.config.as<Attention>();
  if (!a.rope) return {};
  ops::Builder& b = context.builder;
  const int64_t half = a.head_dim / 2;
  const ir::Shape shape = {context.dims.sequence, half};
  const ValueId position = context.positions ? own_positions(context, shape) : b.iota(shape, 0, ir::DType::f32);
  const ValueId index = b.iota(shape, 1, ir::DType::f32);
  const ValueId frequency = b.exp(b.scale(index, -std::log(a.rope_theta) / static_cast<double>(half)));
  const ValueId angle = b.mul(position, frequency);
  const ValueId cos = b.unary("cos", angle);
  return {{"rope_cos", cos}, {"rope_sin", b.unary("sin", angle)}};
}

std::vector<Parameter> parameters(const Dims& dims, const Config& config) {
  const Attention& a = config.as<Attention>();
  const int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
  std::vector<Parameter> list = {{"wq", {dims.hidden, q}, {Dim::whole, Dim::heads}, Init::normal(dims.init_std)},
                                 {"wk", {dims.hidden, kv}, {Dim::whole, Dim::kv_heads}, Init::normal(dims.init_std)},
                                 {"wv", {dims.hidden, kv}, {Dim::whole, Dim::kv_heads}, Init::normal(dims.init_std)},
                                 {"wo", {q, dims.hidden}, {Dim::heads, Dim::whole}, Init::normal(dims.output_std)}};
  if (a.qk_norm) {
    list.push_back({"q_norm", {a.head_dim}, {Dim::whole}, Init::ones(), ParameterKind::norm});
    list.push_back({"k_norm", {a.head_dim}, {Dim::whole}, Init::ones(), ParameterKind::norm});
  }
  return list;
}

// [batch, sequence, heads, head_dim], normed and rotated as configured
ValueId heads_of(const BuildContext& context, ValueId projected, int64_t heads, const std::string& norm) {
  ops::Builder& b = context.builder;
  const Attention& a = context.config.as<Attention>();
  ValueId x = b.reshape(projected, {context.dims.batch, context.dims.sequence, heads, a.head_dim});
  if (norm.empty()) return x;
  if (a.qk_norm) x = b.node("rms_norm", {x, context.weight(norm)}, {{"eps", context.dims.norm_eps}})[0];
  if (a.rope) x = b.one("rope", {x, context.shared.at("rope_cos"), context.shared.at("rope_sin")});
  return x;
}

ir::Attrs attributes(const Attention& a) {
  return {{"scale", 1.0 / std::sqrt(static_cast<double>(a.head_dim))},
          {"causal", int64_t{1}},
          {"window", a.window},
          {"sparse_block", a.sparse_block},
          {"sparse_local", a.sparse_local},
          {"sparse_global", a.sparse_global}};
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
    const ValueId q = heads_of(context, project(context, x, "wq"), a.heads, "q_norm");
    const ValueId k = heads_of(context, project(context, x, "wk"), a.kv_heads, "k_norm");
    const ValueId v = heads_of(context, project(context, x, "wv"), a.kv_heads, "");
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
    out = b.node("attention", operands, attrs)[0];
    if (swaps) out = context.reshard(out, q_heads, q_tokens);
  }
  ops::Scope scope(b, "out");
  const ValueId rows = b.reshape(out, {context.dims.batch, context.dims.sequence, a.heads * a.head_dim});
  return context.leave(project(context, rows, "wo"));
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
