// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward;

constexpr int64_t kUsualWindow = 4096;  // of a config that does not mention it

void mistral_fields(HfCodec& io, recipe::Model& model) {
  language_model(io, model, {});
  layers(io, model, "AE");
  Attention& a = model.config<Attention>();
  heads(io, a, {.kv_heads = 8});
  window(io, a, kUsualWindow);
  rope(io, a);
  FeedForward& e = model.config<FeedForward>();
  gated_silu(io, e);
  io.size("intermediate_size", e.intermediate);
}

}  // namespace

HfClass mistral_class() {
  return {.name = "MistralForCausalLM",
          .model_type = "mistral",
          .fields = mistral_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, {}); }};
}

}  // namespace megacpp::checkpoint
