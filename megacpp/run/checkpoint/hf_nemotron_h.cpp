// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "megacpp/program/recipe/pattern.h"
#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_letters.h"
#include "megacpp/run/checkpoint/hf_parts.h"

namespace megacpp::checkpoint {
namespace {

using blocks::Attention, blocks::FeedForward, blocks::Mamba;

/// A kind of layer, in both ways that configs spell it. Both kinds of feed-forward are blocks of family E.
struct LayerKind {
  char ours;
  char theirs;
  std::array<std::string_view, 2> names;
};

constexpr char kDense = 'D', kRouted = 'E';
constexpr std::array<LayerKind, 4> kLayerKinds = {{{'M', 'M', {"mamba", "linear_attention"}},
                                                   {'A', '*', {"attention", "full_attention"}},
                                                   {kDense, '-', {"mlp", "mlp"}},
                                                   {kRouted, 'E', {"moe", "moe"}}}};

std::string read_layer_names(const HfFields& fields, std::string_view field) {
  std::string kinds;
  for (const std::string& type : fields.texts(field)) {
    const auto* kind = std::ranges::find_if(
        kLayerKinds, [&](const LayerKind& each) { return each.names[0] == type || each.names[1] == type; });
    if (kind == kLayerKinds.end()) fields.refuse(field, type, "mamba, attention, mlp or moe layers");
    kinds += kind->ours;
  }
  return kinds;
}

std::string read_layer_letters(const HfFields& fields) {
  std::string kinds;
  for (const char letter : fields.text_or("hybrid_override_pattern", "")) {
    const auto* kind = std::ranges::find(kLayerKinds, letter, &LayerKind::theirs);
    if (kind == kLayerKinds.end())
      fields.refuse("hybrid_override_pattern", std::string("'") + letter + "'",
                    "M (mamba), * (attention), - (mlp) or E (experts)");
    kinds += kind->ours;
  }
  return kinds;
}

std::string read_kinds(const HfFields& fields) {
  const char* field = fields.has("layer_types") ? "layer_types" : "layers_block_type";
  const std::string kinds = fields.has(field) ? read_layer_names(fields, field) : read_layer_letters(fields);
  if (kinds.empty()) fields.refuse("layers_block_type", "nothing", "the layers' types");
  const auto layers = static_cast<int64_t>(kinds.size());
  if (fields.size_or("num_hidden_layers", layers) != layers) {
    fields.refuse("num_hidden_layers", std::to_string(fields.size("num_hidden_layers")),
                  std::to_string(layers) + " as the pattern has");
  }
  return kinds;
}

/// Kinds of the blocks of a model; the letter of a family that the class lacks stands for itself.
std::string kinds_of(const recipe::Model& model) {
  std::string kinds;
  for (const char letter : recipe::expand(model).letters) {
    const blocks::Config config = recipe::config_of(model, letter);
    const auto* e = config.get_if<FeedForward>();
    kinds += e == nullptr ? recipe::family_of(model, letter).letter : e->is_routed() ? kRouted : kDense;
  }
  return kinds;
}

/// Letters are read by every version of the library; one that is no kind's makes no pattern that reads back.
void write_kinds(HfCodec& io, const std::string& kinds) {
  std::string theirs;
  for (const char each : kinds) {
    const auto* kind = std::ranges::find(kLayerKinds, each, &LayerKind::ours);
    theirs += kind == kLayerKinds.end() ? each : kind->theirs;
  }
  io.put("hybrid_override_pattern", theirs);
  io.put("num_hidden_layers", static_cast<int64_t>(kinds.size()));
}

void attention_without_rope(HfCodec& io, Attention& a) {
  const bool is_old = io.reads() && !io.fields().has("head_dim") && io.fields().has("attention_head_dim");
  heads(io, a, {.head_dim = is_old ? io.fields().size("attention_head_dim") : 0});
  attention_bias(io, a);
  a.rope = false;
  io.optional_size("sliding_window", a.window);
}

void relu2(HfCodec& io, FeedForward& e) {
  io.off({"mlp_bias"});
  io.word("mlp_hidden_act", {"relu2"});
  e.activation = blocks::ActivationFunction::relu2;
}

void relu2_experts(HfCodec& io, FeedForward& e) {
  io.off({"moe_latent_size"});
  relu2(io, e);
  routed_by_tokens(e);
  e.scoring = blocks::Scoring::sigmoid;
  e.selection_bias = true;
  e.balance_loss = 0;
  const bool is_alias = io.reads() && !io.fields().has("n_routed_experts") && io.fields().has("num_local_experts");
  io.size(is_alias ? "num_local_experts" : "n_routed_experts", e.experts, 8);
  io.size("num_experts_per_tok", e.top_k, 2);
  io.size("moe_intermediate_size", e.intermediate, 7688);
  io.size("moe_shared_expert_intermediate_size", e.shared_intermediate, 7688);
  io.flag("norm_topk_prob", e.renormalise, true);
  io.number("routed_scaling_factor", e.routed_scale, 1);
  io.size("n_group", e.expert_groups, 1);
  io.size("topk_group", e.top_groups, 1);
}

/// The reference path of this class clamps at time_step_min in every forward pass, not only at initialisation.
void clamp_at_smallest_step(HfCodec& io, Mamba& m) {
  if (!io.reads()) {
    if (m.dt_limit_low < m.dt_min) io.put("time_step_min", m.dt_limit_low);
    return;
  }
  m.dt_limit_low = std::max(m.dt_limit_low, m.dt_min);
  if (m.dt_min == 0) m.dt_min = Mamba{}.dt_min;  // no clamp; initial steps are not said
}

void clamped_mamba(HfCodec& io, Mamba& m) {
  io.word("mamba_hidden_act", {"silu", "swish"});
  mamba_mixer(io, m);
  io.size("mamba_num_heads", m.heads);
  io.size("mamba_head_dim", m.head_dim, 64);
  io.size("ssm_state_size", m.state, 128);
  clamp_at_smallest_step(io, m);
}

/// Of dense layers, of experts, or of both: then dense layers have a letter of their own.
void relu2_layers(HfCodec& io, recipe::Model& model, const std::string& kinds) {
  FeedForward dense = first_of<FeedForward>(model, [](const FeedForward& e) { return !e.is_routed(); });
  FeedForward routed = first_of<FeedForward>(model, [](const FeedForward& e) { return e.is_routed(); });
  const bool has_dense = kinds.find(kDense) != std::string::npos, has_routed = kinds.find(kRouted) != std::string::npos;
  if (has_dense) {
    relu2(io, dense);
    io.size("intermediate_size", dense.intermediate);
  }
  if (has_routed) relu2_experts(io, routed);
  if (!io.reads()) return;
  model.config<FeedForward>() = has_routed ? routed : dense;
  if (has_dense && has_routed) add_letter(model, kDenseLetter, 'E', blocks::Config::of(dense));
  std::string blocks = kinds;
  if (!has_routed) std::ranges::replace(blocks, kDense, 'E');
  model.pattern = blocks;
  model.depth = static_cast<int64_t>(blocks.size());
}

/// Fields of kinds of layers that the model lacks are not looked at.
void nemotron_h_fields(HfCodec& io, recipe::Model& model) {
  io.off({"hidden_dropout", "num_nextn_predict_layers"});
  language_model(io, model, {.eps_field = "layer_norm_epsilon", .eps = 1e-5});
  const std::string kinds = io.reads() ? read_kinds(io.fields()) : kinds_of(model);
  if (!io.reads()) write_kinds(io, kinds);
  relu2_layers(io, model, kinds);
  if (kinds.find('A') != std::string::npos) attention_without_rope(io, model.config<Attention>());
  if (kinds.find('M') != std::string::npos) clamped_mamba(io, model.config<Mamba>());
}

NameMap nemotron_h_names(const recipe::Model& model, HfNaming naming) {
  const bool on_disk = naming == HfNaming::on_disk;
  return name_one_block_layers(model, on_disk ? "backbone." : "model.",
                               [on_disk](HfNames& names, const FeedForward& e) {
                                 if (!e.is_routed()) return name_mlp(names, e, e.intermediate);
                                 names.linear("router", "gate.weight", names.model().hidden, e.experts);
                                 names.piece({.ours = "expert_bias",
                                              .our_shape = {e.experts},
                                              .theirs = "gate.e_score_correction_bias",
                                              .their_shape = {e.experts},
                                              .is_trained = false});
                                 if (on_disk)
                                   name_single_experts(names, e);
                                 else
                                   name_fused_experts(names, e, "experts.up_proj", "experts.down_proj");
                                 name_mlp(names, e, e.shared_intermediate, "shared.", "shared_experts.");
                               });
}

}  // namespace

HfClass nemotron_h_class() {
  return {.name = "NemotronHForCausalLM",
          .model_type = "nemotron_h",
          .fields = nemotron_h_fields,
          .names = nemotron_h_names};
}

}  // namespace megacpp::checkpoint
