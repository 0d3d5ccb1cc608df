// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_gemma.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention;

constexpr double kGlobalTheta = 1e6, kLocalTheta = 1e4;
constexpr int64_t kUsualPeriod = 6;  // layers of which the last one sees all

/// Bases and scaling by kind of layer: an object for each, or older the theta and scaling of the full layers, and a
/// base of the local ones.
void read_ropes(const HfFields& fields, Attention& full, Attention& sliding) {
  const base::Json none = base::Json::object();
  const HfFields empty(none, fields.context());
  const HfFields ropes = fields.has("rope_parameters") ? fields.object("rope_parameters") : empty;
  for (const std::string& name : ropes.names())
    if (name != "full_attention" && name != "sliding_attention")
      ropes.refuse(name, "given", "full_attention and sliding_attention");
  read_rope(fields,
            fields.has("rope_scaling")    ? fields.object("rope_scaling")
            : ropes.has("full_attention") ? ropes.object("full_attention")
                                          : empty,
            {.theta = kGlobalTheta}, full);
  if (ropes.has("sliding_attention")) {
    read_rope(empty, ropes.object("sliding_attention"), {.theta = kLocalTheta}, sliding);
  } else {
    sliding.rope_theta = fields.number_or("rope_local_base_freq", kLocalTheta);
  }
}

void write_ropes(HfCodec& io, const Attention& full, const Attention& sliding) {
  io.put("rope_parameters", {{"full_attention", rope_json(full)}, {"sliding_attention", rope_json(sliding)}});
  io.put("rope_theta", full.rope_theta);
  io.put("rope_local_base_freq", sliding.rope_theta);
}

void gemma3_fields(HfCodec& io, recipe::Model& model) {
  gemma(io, model);
  auto [a, sliding] = two_attentions(model);
  heads(io, a, {.kv_heads = 4, .head_dim = 256});
  attention_bias(io, a);
  query_scalar(io, a);
  a.qk_norm = true;
  io.optional_number("attn_logit_softcapping", a.softcap, 0);
  if (io.reads()) {
    sliding = a;
    read_ropes(io.fields(), a, sliding);
  } else {
    write_ropes(io, a, sliding);
  }
  window(io, sliding, 4096);
  const int64_t period = io.reads() ? io.fields().size_or("sliding_window_pattern",
                                                          io.fields().size_or("_sliding_window_pattern", kUsualPeriod))
                                    : kUsualPeriod;
  sliding_layers(io, model, {.full = a, .sliding = sliding},
                 [period](int64_t layer) { return (layer + 1) % period != 0; });
  io.optional_number("final_logit_softcapping", model.logits_softcap, 0);
}

const LayerNames kGemma3Layers = {.mixer_post_norm = "post_attention_layernorm",
                                  .feed_forward_norm = "pre_feedforward_layernorm",
                                  .feed_forward_post_norm = "post_feedforward_layernorm"};

}  // namespace

HfClass gemma3_class() {
  return {.name = "Gemma3ForCausalLM",
          .model_type = "gemma3_text",
          .fields = gemma3_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, kGemma3Layers); }};
}

}  // namespace megacpp::checkpoint
