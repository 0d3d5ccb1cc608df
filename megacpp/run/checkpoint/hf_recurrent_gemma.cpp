// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include <nlohmann/json.hpp>

#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/recipe/pattern.h"
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward, blocks::Recurrent;

/// Blocks by turns, as often as there are layers.
void recurrent_layers(HfCodec& io, recipe::Model& model) {
  if (!io.reads()) {
    std::vector<std::string> types;
    const std::vector<char> letters = recipe::expand(model).letters;
    for (size_t i = 0; i < letters.size(); i += 2)
      types.emplace_back(recipe::family_of(model, letters[i]).letter == 'A' ? "attention" : "recurrent");
    io.put("num_hidden_layers", model.depth / 2);
    io.put("block_types", types);
    return;
  }
  const HfFields& fields = io.fields();
  std::vector<std::string> types = {"recurrent", "recurrent", "attention"};
  if (fields.has("block_types")) types = fields.texts("block_types");
  if (types.empty()) fields.refuse("block_types", "none", "recurrent or attention");
  std::string blocks;
  for (const std::string& type : types) {
    if (type != "recurrent" && type != "attention") fields.refuse("block_types", type, "recurrent or attention");
    blocks += {type == "attention" ? 'A' : 'R', 'E'};
  }
  set_blocks(model, blocks);
  model.depth = 2 * fields.size("num_hidden_layers");
}

/// As the class keeps it, in bf16.
double embed_scale(int64_t hidden) {
  const auto bits = std::bit_cast<uint32_t>(std::sqrt(static_cast<float>(hidden)));
  const uint32_t to_even = 0x7fff + (bits >> 16 & 1);
  return static_cast<double>(std::bit_cast<float>((bits + to_even) & 0xffff0000));
}

void local_attention(HfCodec& io, Attention& a) {
  heads(io, a);
  io.flag("attention_bias", a.qkv_bias, false);
  a.out_bias = true;
  io.size("attention_window_size", a.window, 2048);
  rope(io, a, {.part = 0.5, .may_be_part = true});
}

/// The width that the config has is that of gates and ups together.
void geglu_of_both(HfCodec& io, FeedForward& e) {
  gated_gelu(io, e, "hidden_activation");
  e.bias = true;
  int64_t both = 2 * e.intermediate;
  io.size("intermediate_size", both);
  if (io.reads() && both < 2) io.fields().refuse("intermediate_size", std::to_string(both), "at least 2");
  e.intermediate = both / 2;
}

void recurrent_gemma_fields(HfCodec& io, recipe::Model& model) {
  language_model(io, model, {.tie = true});
  recurrent_layers(io, model);
  model.norm_plus_one = true;
  model.embed_scale = embed_scale(model.hidden);
  io.number("logits_soft_cap", model.logits_softcap, 30);
  Attention& a = model.config<Attention>();
  local_attention(io, a);
  Recurrent& r = model.config<Recurrent>();
  io.size("lru_width", r.width, model.hidden);
  io.size("conv1d_width", r.conv_width, 4);
  if (io.reads()) r.heads = a.heads;
  if (io.reads() && r.width % r.heads != 0)
    io.fields().refuse("lru_width", std::to_string(r.width), "a multiple of num_attention_heads");
  geglu_of_both(io, model.config<FeedForward>());
}

const LayerNames kRecurrentGemmaLayers = {.final_norm = "model.final_norm.weight",
                                          .mixer_norm = "temporal_pre_norm",
                                          .feed_forward_norm = "channel_pre_norm",
                                          .attention = "temporal_block.",
                                          .recurrent = "temporal_block.",
                                          .feed_forward = "mlp_block."};

void lone_block_fields(HfCodec& io, recipe::Model& model) {
  model.pattern = "R";
  model.depth = 1;
  io.size("hidden", model.hidden);
  Recurrent& r = model.config<Recurrent>();
  io.size("lru_width", r.width, model.hidden);
  io.size("heads", r.heads);
  io.size("conv", r.conv_width, 4);
  if (io.reads() && r.width % r.heads != 0)
    io.fields().refuse("heads", std::to_string(r.heads), "a divisor of lru_width");
}

/// A lone R mixer: block00.R without norm, embedding or head.
NameMap lone_block_names(const recipe::Model& model) {
  HfNames names(model);
  const char letter = recipe::expand(model).letters[0];
  names.at(hf_block(0, letter), "");
  name_recurrent(names, recipe::config_of(model, letter));
  return names.done();
}

}  // namespace

HfClass recurrent_gemma_class() {
  return {.name = "RecurrentGemmaForCausalLM",
          .model_type = "recurrent_gemma",
          .fields = recurrent_gemma_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, kRecurrentGemmaLayers); }};
}

HfClass recurrent_gemma_block_class() {
  return {.name = "RecurrentGemmaRecurrentBlock",
          .model_type = "",
          .fields = lone_block_fields,
          .names = [](const recipe::Model& m, HfNaming) { return lone_block_names(m); },
          .is_lone_block = true};
}

}  // namespace megacpp::checkpoint
