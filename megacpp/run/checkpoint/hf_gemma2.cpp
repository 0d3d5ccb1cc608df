// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_gemma.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

void gemma2_fields(HfCodec& io, recipe::Model& model) {
  gemma(io, model);
  auto [a, sliding] = two_attentions(model);
  heads(io, a, {.kv_heads = 4, .head_dim = 256});
  attention_bias(io, a);
  query_scalar(io, a);
  io.optional_number("attn_logit_softcapping", a.softcap, 50);
  rope(io, a);
  if (io.reads()) sliding = a;
  window(io, sliding, 4096);
  sliding_layers(io, model, {.full = a, .sliding = sliding}, [](int64_t layer) { return layer % 2 == 0; });
  io.optional_number("final_logit_softcapping", model.logits_softcap, 30);
}

const LayerNames kGemma2Layers = {.mixer_post_norm = "post_attention_layernorm",
                                  .feed_forward_norm = "pre_feedforward_layernorm",
                                  .feed_forward_post_norm = "post_feedforward_layernorm"};

}  // namespace

HfClass gemma2_class() {
  return {.name = "Gemma2ForCausalLM",
          .model_type = "gemma2",
          .fields = gemma2_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, kGemma2Layers); }};
}

}  // namespace megacpp::checkpoint
