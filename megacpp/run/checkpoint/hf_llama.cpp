// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward;

void llama_fields(HfCodec& io, recipe::Model& model) {
  io.off({"sliding_window"});  // the class has none
  language_model(io, model, {});
  layers(io, model, "AE");
  Attention& a = model.config<Attention>();
  heads(io, a);
  attention_bias(io, a);
  rope(io, a);
  FeedForward& e = model.config<FeedForward>();
  gated_silu(io, e);
  io.flag("mlp_bias", e.bias, false);
  io.size("intermediate_size", e.intermediate);
}

}  // namespace

HfClass llama_class() {
  return {.name = "LlamaForCausalLM",
          .model_type = "llama",
          .fields = llama_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, {}); }};
}

}  // namespace megacpp::checkpoint
