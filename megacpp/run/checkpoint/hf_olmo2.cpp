// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward;

void olmo2_fields(HfCodec& io, recipe::Model& model) {
  language_model(io, model, {.eps = 1e-5});
  layers(io, model, "AE");
  model.norm_place = recipe::NormPlace::after;
  Attention& a = model.config<Attention>();
  heads(io, a);
  attention_bias(io, a);
  a.qk_norm = true;
  a.qk_norm_over = blocks::NormOver::heads;
  rope(io, a);
  FeedForward& e = model.config<FeedForward>();
  gated_silu(io, e);
  io.size("intermediate_size", e.intermediate);
}

const LayerNames kOlmo2Layers = {.mixer_post_norm = "post_attention_layernorm",
                                 .feed_forward_post_norm = "post_feedforward_layernorm"};

}  // namespace

HfClass olmo2_class() {
  return {.name = "Olmo2ForCausalLM",
          .model_type = "olmo2",
          .fields = olmo2_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, kOlmo2Layers); }};
}

}  // namespace megacpp::checkpoint
