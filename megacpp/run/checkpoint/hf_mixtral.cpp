// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_parts.h"
#include "megacpp/run/checkpoint/hf_rope.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward;

void mixtral_fields(HfCodec& io, recipe::Model& model) {
  io.off({"router_jitter_noise", "attention_bias", "mlp_bias"});
  language_model(io, model, {.eps = 1e-5});
  layers(io, model, "AE");
  Attention& a = model.config<Attention>();
  heads(io, a);
  io.optional_size("sliding_window", a.window);
  rope(io, a, {.theta = 1e6});
  FeedForward& e = model.config<FeedForward>();
  gated_silu(io, e);
  io.size("intermediate_size", e.intermediate);
  routed_by_tokens(e);
  io.size("num_local_experts", e.experts);
  io.size("num_experts_per_tok", e.top_k, 2);
  io.number("router_aux_loss_coef", e.balance_loss, 0.001);
}

NameMap mixtral_names(const recipe::Model& model, HfNaming naming) {
  const bool on_disk = naming == HfNaming::on_disk;
  const auto experts = [on_disk](HfNames& names, const FeedForward& e) {
    names.linear("router", "gate.weight", names.model().hidden, e.experts);
    if (on_disk)
      name_single_experts(names, e, {.gate = "w1", .up = "w3", .down = "w2"});
    else
      name_fused_experts(names, e, "experts.gate_up_proj", "experts.down_proj");
  };
  return name_two_block_layers(model, {.feed_forward = on_disk ? "block_sparse_moe." : "mlp."}, experts);
}

}  // namespace

HfClass mixtral_class() {
  return {.name = "MixtralForCausalLM", .model_type = "mixtral", .fields = mixtral_fields, .names = mixtral_names};
}

}  // namespace megacpp::checkpoint
