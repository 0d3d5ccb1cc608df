// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <nlohmann/json.hpp>

#include "megacpp/program/recipe/pattern.h"
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward;

/// Kinds of mixers, each in both ways that configs spell it.
void granite_layers(HfCodec& io, recipe::Model& model) {
  if (!io.reads()) {
    std::vector<std::string> types;
    const std::vector<char> letters = recipe::expand(model).letters;
    for (size_t i = 0; i < letters.size(); i += 2)
      types.emplace_back(recipe::family_of(model, letters[i]).letter == 'A' ? "attention" : "mamba");
    io.put("num_hidden_layers", model.depth / 2);
    io.put("layer_types", types);
    return;
  }
  const int64_t layers = io.fields().size("num_hidden_layers");
  std::string blocks = "ME";
  if (io.fields().has("layer_types")) {
    blocks.clear();
    for (const std::string& type :
         layer_words(io.fields(), "layer_types", layers, {"attention", "mamba", "full_attention", "linear_attention"}))
      blocks += {type == "attention" || type == "full_attention" ? 'A' : 'M', 'E'};
  }
  set_blocks(model, blocks);
  model.depth = 2 * layers;
}

void granite_multipliers(HfCodec& io, recipe::Model& model, Attention& a) {
  io.number("embedding_multiplier", model.embed_scale, 1);
  io.number("residual_multiplier", model.residual_scale, 1);
  io.number("logits_scaling", model.logits_divisor, 1);
  if (!io.reads() && a.scale == 0) a.scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
  io.number("attention_multiplier", a.scale, 1);
  if (a.scale <= 0) io.fields().refuse("attention_multiplier", std::to_string(a.scale), "a number above 0");
}

/// "rope", or nothing.
void granite_positions(HfCodec& io, Attention& a) {
  if (io.reads()) {
    io.fields().require_one_of("position_embedding_type", {"rope", "nope"});
    a.rope = io.fields().text_or("position_embedding_type", "nope") == "rope";
  } else {
    io.put("position_embedding_type", a.rope ? base::Json("rope") : base::Json());
  }
  if (a.rope) rope(io, a);
}

/// A shared expert alone where there are no others.
void granite_experts(HfCodec& io, FeedForward& e) {
  gated_silu(io, e);
  const bool is_dense = io.reads() ? io.fields().number_or("num_local_experts", 8) == 0 : !e.is_routed();
  if (is_dense) {
    if (!io.reads()) io.put("num_local_experts", 0);
    io.size("shared_intermediate_size", e.intermediate, 1024);
    return;
  }
  io.size("num_local_experts", e.experts, 8);
  routed_by_tokens(e);
  io.size("num_experts_per_tok", e.top_k, 2);
  io.size("intermediate_size", e.intermediate);
  io.size("shared_intermediate_size", e.shared_intermediate, 1024);
  balance_when_asked(io, e);
}

void granite_hybrid_fields(HfCodec& io, recipe::Model& model) {
  language_model(io, model, {});
  granite_layers(io, model);
  Attention& a = model.config<Attention>();
  heads(io, a);
  attention_bias(io, a);
  granite_multipliers(io, model, a);
  granite_positions(io, a);
  bamba_mixer(io, model, model.config<blocks::Mamba>());
  granite_experts(io, model.config<FeedForward>());
}

/// Gates, then ups in one matrix; of the shared expert, or of a dense block.
void name_shared(HfNames& names, const std::string& ours, int64_t f) {
  const int64_t hidden = names.model().hidden;
  NamePiece gate = {.ours = ours + "w_gate",
                    .our_shape = {hidden, f},
                    .theirs = "shared_mlp.input_linear.weight",
                    .their_shape = {2 * f, hidden},
                    .transposed = true};
  NamePiece up = gate;
  up.ours = ours + "w_up";
  up.row_begin = f;
  names.piece(std::move(gate));
  names.piece(std::move(up));
  names.linear(ours + "w_down", "shared_mlp.output_linear.weight", f, hidden);
}

NameMap granite_hybrid_names(const recipe::Model& model, HfNaming naming) {
  const bool on_disk = naming == HfNaming::on_disk;
  return name_two_block_layers(model, {.feed_forward = ""}, [on_disk](HfNames& names, const FeedForward& e) {
    if (!e.is_routed()) return name_shared(names, "", e.intermediate);
    const std::string module = "block_sparse_moe.";
    names.linear("router", module + (on_disk ? "router.layer.weight" : "router.weight"), names.model().hidden,
                 e.experts);
    name_fused_experts(names, e, module + (on_disk ? "input_linear.weight" : "experts.gate_up_proj"),
                       module + (on_disk ? "output_linear.weight" : "experts.down_proj"));
    if (e.shared_intermediate > 0) name_shared(names, "shared.", e.shared_intermediate);
  });
}

}  // namespace

HfClass granite_hybrid_class() {
  return {.name = "GraniteMoeHybridForCausalLM",
          .model_type = "granitemoehybrid",
          .fields = granite_hybrid_fields,
          .names = granite_hybrid_names};
}

}  // namespace megacpp::checkpoint
