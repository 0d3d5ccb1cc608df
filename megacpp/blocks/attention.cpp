// SPDX-License-Identifier: Apache-2.0
#include "megacpp/blocks/attention.h"

#include <cmath>

#include "megacpp/blocks/block.h"

namespace megacpp::blocks {
namespace {

std::vector<Parameter> parameters(const Dims& dims, const Configs& configs) {
  const Attention& a = configs.attention;
  const int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
  std::vector<Parameter> list = {{"wq", {dims.hidden, q}, {Dim::whole, Dim::heads}, Init::normal(dims.init_std)},
                                 {"wk", {dims.hidden, kv}, {Dim::whole, Dim::kv_heads}, Init::normal(dims.init_std)},
                                 {"wv", {dims.hidden, kv}, {Dim::whole, Dim::kv_heads}, Init::normal(dims.init_std)},
                                 {"wo", {q, dims.hidden}, {Dim::heads, Dim::whole}, Init::normal(dims.output_std)}};
  if (a.qk_norm) {
    list.push_back({"q_norm", {a.head_dim}, {Dim::whole}, Init::ones(), false});
    list.push_back({"k_norm", {a.head_dim}, {Dim::whole}, Init::ones(), false});
  }
  return list;
}

// [batch, sequence, heads, head_dim], normed and rotated as configured
ValueId heads_of(const BuildContext& context, ValueId projected, int64_t heads, const std::string& norm) {
  ops::Builder& b = context.builder;
  const Attention& a = context.configs.attention;
  ValueId x = b.reshape(projected, {context.dims.batch, context.dims.sequence, heads, a.head_dim});
  if (norm.empty()) return x;
  if (a.qk_norm) x = b.node("rms_norm", {x, context.weight(norm)}, {{"eps", context.dims.norm_eps}})[0];
  if (a.rope) x = b.one("rope", {x, *context.rope_cos, *context.rope_sin});
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

// Queries and keys are the same tokens, so what describes them stands for both sides. Attributes only say what is
// there.
void add_tokens(const BuildContext& context, std::vector<ValueId>& operands, ir::Attrs& attrs) {
  const auto add = [&](const std::string& flag, ValueId of_tokens) {
    attrs.set(flag, int64_t{1});
    operands.insert(operands.end(), {of_tokens, of_tokens});
  };
  if (context.configs.attention.document_mask && context.segments) add("documents", *context.segments);
  if (context.positions) add("placed", *context.positions);
}

// Without a ring, chips that split the sequence swap tokens for heads, so that each sees whole sequences.
bool swaps_heads_for_tokens(const Parallel& parallel) {
  return !parallel.ring_attention && !parallel.axes_of(Dim::sequence).empty();
}

ValueId build(const BuildContext& context, ValueId stream) {
  ops::Builder& b = context.builder;
  const Attention& a = context.configs.attention;
  const ValueId x = context.enter(stream);
  std::vector<ValueId> operands;
  {
    ops::Scope scope(b, "qkv");
    const ValueId q = heads_of(context, project(context, x, "wq"), a.heads, "q_norm");
    const ValueId k = heads_of(context, project(context, x, "wk"), a.kv_heads, "k_norm");
    const ValueId v = heads_of(context, project(context, x, "wv"), a.kv_heads, "");
    operands = {q, k, v};
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

BlockDef attention_block() { return {.letter = 'A', .name = "attention", .parameters = parameters, .build = build}; }

}  // namespace megacpp::blocks
