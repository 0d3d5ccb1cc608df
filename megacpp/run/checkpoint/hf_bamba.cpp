// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <nlohmann/json.hpp>

#include "megacpp/program/recipe/pattern.h"
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward;

void bamba_layers(HfCodec& io, recipe::Model& model) {
  if (io.reads()) {
    const int64_t layers = io.fields().size("num_hidden_layers");
    const std::vector<int64_t> attends = io.fields().integers("attn_layer_indices");
    std::string blocks;
    for (int64_t layer = 0; layer < std::min(layers, kMostLayers); ++layer)
      blocks += {std::ranges::find(attends, layer) != attends.end() ? 'A' : 'M', 'E'};
    set_blocks(model, blocks);
    model.depth = std::max(model.depth, 2 * layers);
    return;
  }
  std::vector<int64_t> attends;
  const std::vector<char> letters = recipe::expand(model).letters;
  for (size_t i = 0; i < letters.size(); i += 2)
    if (recipe::family_of(model, letters[i]).letter == 'A') attends.push_back(static_cast<int64_t>(i / 2));
  io.put("num_hidden_layers", model.depth / 2);
  io.put("attn_layer_indices", attends);
}

void bamba_fields(HfCodec& io, recipe::Model& model) {
  language_model(io, model, {.eps = 1e-5});
  bamba_layers(io, model);
  io.number("z_loss_coefficient", model.z_loss, 0);
  Attention& a = model.config<Attention>();
  heads(io, a, {.kv_heads = 8});
  attention_bias(io, a);
  rope(io, a, {.part = 0.5, .may_be_part = true});
  bamba_mixer(io, model, model.config<blocks::Mamba>());
  FeedForward& e = model.config<FeedForward>();
  gated_silu(io, e);
  io.flag("mlp_bias", e.bias, false);
  io.size("intermediate_size", e.intermediate);
}

const LayerNames kBambaLayers = {.final_norm = "model.final_layernorm.weight",
                                 .feed_forward_norm = "pre_ff_layernorm",
                                 .feed_forward = "feed_forward."};

}  // namespace

HfClass bamba_class() {
  return {.name = "BambaForCausalLM",
          .model_type = "bamba",
          .fields = bamba_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, kBambaLayers); }};
}

}  // namespace megacpp::checkpoint
