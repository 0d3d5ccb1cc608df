// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward;

constexpr double kUsualTheta = 150000;

/// Where a config says nothing of rope, the class has yarn.
void rope_or_yarn(HfCodec& io, Attention& a) {
  if (!io.reads() || io.fields().has("rope_parameters") || io.fields().has("rope_scaling"))
    return rope(io, a, {.theta = kUsualTheta});
  a.rope_theta = io.fields().number_or("rope_theta", kUsualTheta);
  a.rope_scaling = blocks::RopeScaling::yarn;
  a.rope_factor = 32;
  a.rope_original_length = 4096;
  a.rope_whole_channels = false;
}

void gpt_oss_fields(HfCodec& io, recipe::Model& model) {
  language_model(io, model, {.eps = 1e-5});
  auto [a, sliding] = two_attentions(model);
  heads(io, a, {.kv_heads = 8, .head_dim = 64});
  attention_bias(io, a, true);
  a.sinks = true;
  rope_or_yarn(io, a);
  if (io.reads()) sliding = a;
  window(io, sliding, 128);
  sliding_layers(io, model, {.full = a, .sliding = sliding}, [](int64_t layer) { return layer % 2 == 0; });
  FeedForward& e = model.config<FeedForward>();
  io.word("hidden_act", {"silu", "swish"});
  e.activation = blocks::ActivationFunction::clamped_swiglu;
  e.bias = true;
  io.number("swiglu_alpha", e.clamp_slope, 1.702);
  io.number("swiglu_limit", e.clamp_limit, 7);
  io.size("intermediate_size", e.intermediate);
  routed_by_tokens(e);
  io.size("num_local_experts", e.experts, 128);
  io.size("num_experts_per_tok", e.top_k, 4);
  balance_when_asked(io, e);
}

/// Experts as [E, h, 2f] with gates and ups by turns, and [E, f, h], each with biases.
void name_interleaved_experts(HfNames& names, const FeedForward& e) {
  const int64_t f = e.intermediate, hidden = names.model().hidden;
  names.linear("router", "router.weight", hidden, e.experts);
  names.plain("router_bias", "router.bias", {e.experts});
  const auto interleaved = [&](const char* ours, const char* theirs, ir::Shape shape, int64_t first) {
    ir::Shape their_shape = shape;
    their_shape.back() *= 2;
    names.piece({.ours = ours,
                 .our_shape = std::move(shape),
                 .theirs = theirs,
                 .their_shape = std::move(their_shape),
                 .row_begin = first,
                 .step = 2});
  };
  interleaved("w_gate", "experts.gate_up_proj", {e.experts, hidden, f}, 0);
  interleaved("w_up", "experts.gate_up_proj", {e.experts, hidden, f}, 1);
  interleaved("b_gate", "experts.gate_up_proj_bias", {e.experts, f}, 0);
  interleaved("b_up", "experts.gate_up_proj_bias", {e.experts, f}, 1);
  names.plain("w_down", "experts.down_proj", {e.experts, f, hidden});
  names.plain("b_down", "experts.down_proj_bias", {e.experts, hidden});
}

}  // namespace

HfClass gpt_oss_class() {
  return {
      .name = "GptOssForCausalLM",
      .model_type = "gpt_oss",
      .fields = gpt_oss_fields,
      .names = [](const recipe::Model& m, HfNaming) { return name_two_block_layers(m, {}, name_interleaved_experts); }};
}

}  // namespace megacpp::checkpoint
