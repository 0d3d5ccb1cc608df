// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::FeedForward;

void qwen2_fields(HfCodec& io, recipe::Model& model) {
  language_model(io, model, {});
  auto [a, sliding] = two_attentions(model);
  heads(io, a, {.kv_heads = 32});
  a.qkv_bias = true;
  rope(io, a);
  const int64_t first = window_when_used(io, a, sliding);
  sliding_layers(io, model, {.full = a, .sliding = sliding}, [first](int64_t layer) { return layer >= first; });
  FeedForward& e = model.config<FeedForward>();
  gated_silu(io, e);
  io.size("intermediate_size", e.intermediate);
}

}  // namespace

HfClass qwen2_class() {
  return {.name = "Qwen2ForCausalLM",
          .model_type = "qwen2",
          .fields = qwen2_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, {}); }};
}

}  // namespace megacpp::checkpoint
