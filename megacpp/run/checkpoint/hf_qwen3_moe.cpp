// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <nlohmann/json.hpp>

#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/pattern.h"
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward;

/// Which layers have experts: every so many, but for a list of those that have none.
std::vector<bool> read_routed(const HfFields& fields, int64_t layers) {
  const int64_t step = fields.size_or("decoder_sparse_step", 1);
  const std::vector<int64_t> dense = fields.integers("mlp_only_layers");
  std::vector<bool> routed;
  for (int64_t layer = 0; layer < layers; ++layer)
    routed.push_back((layer + 1) % step == 0 && std::ranges::find(dense, layer) == dense.end());
  return routed;
}

void write_routed(HfCodec& io, const recipe::Model& model) {
  std::vector<int64_t> dense;
  const std::vector<char> letters = recipe::expand(model).letters;
  for (size_t i = 1; i < letters.size(); i += 2) {
    const blocks::Config config = recipe::config_of(model, letters[i]);
    const auto* e = config.get_if<FeedForward>();
    if (e != nullptr && !e->is_routed()) dense.push_back(static_cast<int64_t>(i / 2));
  }
  io.put("num_hidden_layers", model.depth / 2);
  io.put("decoder_sparse_step", 1);
  io.put("mlp_only_layers", dense);
}

void read_sparse_layers(const HfFields& fields, const FeedForward& dense, recipe::Model& model) {
  const int64_t layers = fields.size("num_hidden_layers");
  const std::vector<bool> routed = read_routed(fields, std::min(layers, kMostLayers));
  std::string blocks;
  const bool any_dense = std::ranges::find(routed, false) != routed.end();
  const bool any_routed = std::ranges::find(routed, true) != routed.end();
  if (!any_routed) model.config<FeedForward>() = dense;
  if (any_dense && any_routed) add_letter(model, kDenseLetter, 'E', blocks::Config::of(dense));
  for (const bool is_routed_here : routed) blocks += {'A', is_routed_here || !any_routed ? 'E' : kDenseLetter};
  set_blocks(model, blocks);
  model.depth = std::max(model.depth, 2 * layers);
}

void qwen3_moe_fields(HfCodec& io, recipe::Model& model) {
  language_model(io, model, {});
  Attention& a = model.config<Attention>();
  heads(io, a, {.kv_heads = 4});
  attention_bias(io, a);
  a.qk_norm = true;
  rope(io, a);
  bool slides = a.window > 0;
  io.flag("use_sliding_window", slides, false);
  if (!io.reads() || slides) window(io, a, 4096);
  FeedForward e = first_of<FeedForward>(model, [](const FeedForward& f) { return f.is_routed(); });
  FeedForward dense = first_of<FeedForward>(model, [](const FeedForward& f) { return !f.is_routed(); });
  gated_silu(io, e);
  dense.activation = e.activation;
  if (io.reads() || dense.experts == 0) io.size("intermediate_size", dense.intermediate, 6144);
  routed_by_tokens(e);
  io.size("moe_intermediate_size", e.intermediate, 768);
  if (io.reads() && io.fields().has("num_local_experts")) {
    io.size("num_local_experts", e.experts);
  } else {
    io.size("num_experts", e.experts, 128);
  }
  io.size("num_experts_per_tok", e.top_k, 8);
  io.flag("norm_topk_prob", e.renormalise, false);
  balance_when_asked(io, e);
  if (!io.reads()) return write_routed(io, model);
  model.config<FeedForward>() = e;
  read_sparse_layers(io.fields(), dense, model);
}

NameMap qwen3_moe_names(const recipe::Model& model, HfNaming naming) {
  return name_two_block_layers(model, {}, [naming](HfNames& names, const FeedForward& e) {
    if (!e.is_routed()) return name_mlp(names, e, e.intermediate);
    names.linear("router", "gate.weight", names.model().hidden, e.experts);
    if (naming == HfNaming::on_disk)
      name_single_experts(names, e);
    else
      name_fused_experts(names, e, "experts.gate_up_proj", "experts.down_proj");
  });
}

}  // namespace

HfClass qwen3_moe_class() {
  return {
      .name = "Qwen3MoeForCausalLM", .model_type = "qwen3_moe", .fields = qwen3_moe_fields, .names = qwen3_moe_names};
}

}  // namespace megacpp::checkpoint
