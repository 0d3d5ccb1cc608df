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

ValueId build(const BuildContext& context, ValueId x) {
  ops::Builder& b = context.builder;
  const Attention& a = context.configs.attention;
  std::vector<ValueId> operands;
  {
    ops::Scope scope(b, "qkv");
    const ValueId q = heads_of(context, project(context, x, "wq"), a.heads, "q_norm");
    const ValueId k = heads_of(context, project(context, x, "wk"), a.kv_heads, "k_norm");
    const ValueId v = heads_of(context, project(context, x, "wv"), a.kv_heads, "");
    operands = {q, k, v};
    if (a.document_mask && context.segments) operands.push_back(*context.segments);
  }
  ValueId out;
  {
    ops::Scope scope(b, "core");
    out = b.node("attention", operands,
                 {{"scale", 1.0 / std::sqrt(static_cast<double>(a.head_dim))},
                  {"causal", int64_t{1}},
                  {"window", a.window},
                  {"sparse_block", a.sparse_block},
                  {"sparse_local", a.sparse_local},
                  {"sparse_global", a.sparse_global}})[0];
  }
  ops::Scope scope(b, "out");
  return project(context, b.reshape(out, {context.dims.batch, context.dims.sequence, a.heads * a.head_dim}), "wo");
}

}  // namespace

BlockDef attention_block() { return {.letter = 'A', .name = "attention", .parameters = parameters, .build = build}; }

}  // namespace megacpp::blocks
