// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_classes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"

namespace megacpp::checkpoint {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Base of the rotary wavelengths; every other rotary option is refused.
double read_rope_theta(const HfFields& fields, double otherwise) {
  double theta = fields.number_or("rope_theta", otherwise);
  for (const char* field : {"rope_parameters", "rope_scaling"}) {
    if (!fields.has(field)) continue;
    const HfFields rope = fields.object(field);
    for (const std::string& name : rope.names()) {
      const bool known =
          name == "rope_theta" || name == "rope_type" || name == "type" || name == "partial_rotary_factor";
      if (!known) rope.refuse(name, "given", "only rope_theta and rope_type: default");
    }
    rope.require_one_of("rope_type", {"default"});
    rope.require_one_of("type", {"default"});
    if (rope.number_or("partial_rotary_factor", 1) != 1) rope.refuse("partial_rotary_factor", "a part", "1");
    theta = rope.number_or("rope_theta", theta);
  }
  if (fields.number_or("partial_rotary_factor", 1) != 1) fields.refuse("partial_rotary_factor", "a part", "1");
  return theta;
}

/// Written where older and newer versions of the library look for it.
void rope_theta(HfCodec& io, double& theta, double otherwise) {
  if (io.reads()) {
    theta = read_rope_theta(io.fields(), otherwise);
    return;
  }
  io.put("rope_theta", theta);
  io.put("rope_parameters", {{"rope_type", "default"}, {"rope_theta", theta}});
}

int64_t hidden_per_head(const HfFields& fields) {
  const int64_t hidden = fields.size("hidden_size");
  const int64_t heads = fields.size("num_attention_heads");
  if (hidden % heads != 0)
    fields.refuse("num_attention_heads", std::to_string(heads), "a divisor of hidden_size, or head_dim");
  return hidden / heads;
}

/// Older configs of NemotronH call it attention_head_dim.
void head_dim(HfCodec& io, int64_t& value) {
  if (!io.reads()) {
    io.put("head_dim", value);
    return;
  }
  const char* field = io.fields().has("head_dim") ? "head_dim" : "attention_head_dim";
  value = io.fields().has(field) ? io.fields().size(field) : hidden_per_head(io.fields());
}

/// What every class with a vocabulary has.
void language_model(HfCodec& io, recipe::Model& model, std::string_view eps_field, double eps) {
  io.off({"quantization_config"});
  io.size("hidden_size", model.hidden);
  io.size("vocab_size", model.vocab);
  io.number(eps_field, model.norm_eps, eps);
  io.flag("tie_word_embeddings", model.tie_embeddings, false);
  io.number("initializer_range", model.init_std, 0.02);
}

/// Layers of so many blocks each.
void layers(HfCodec& io, recipe::Model& model, const char* blocks) {
  const auto per_layer = static_cast<int64_t>(std::string_view(blocks).size());
  int64_t count = model.depth / per_layer;
  io.size("num_hidden_layers", count);
  model.depth = per_layer * count;
  model.pattern = blocks;
}

struct RotaryDefaults {
  double eps;
  double theta;
};

/// Layers of an A and an E block with rotary attention and SwiGLU: Llama and Mixtral.
void rotary_transformer(HfCodec& io, recipe::Model& model, RotaryDefaults otherwise) {
  io.off({"attention_bias", "mlp_bias", "attention_dropout"});
  io.word("hidden_act", {"silu", "swish"});
  language_model(io, model, "rms_norm_eps", otherwise.eps);
  layers(io, model, "AE");
  blocks::Attention& a = model.config<blocks::Attention>();
  io.size("num_attention_heads", a.heads);
  io.size("num_key_value_heads", a.kv_heads, a.heads);
  head_dim(io, a.head_dim);
  rope_theta(io, a.rope_theta, otherwise.theta);
  blocks::FeedForward& e = model.config<blocks::FeedForward>();
  e.activation = blocks::ActivationFunction::swiglu;
  io.size("intermediate_size", e.intermediate);
}

void llama(HfCodec& io, recipe::Model& model) {
  io.off({"sliding_window"});  // the class has none
  rotary_transformer(io, model, {.eps = 1e-6, .theta = 10000});
}

void mixtral(HfCodec& io, recipe::Model& model) {
  io.off({"router_jitter_noise"});
  rotary_transformer(io, model, {.eps = 1e-5, .theta = 1e6});
  io.optional_size("sliding_window", model.config<blocks::Attention>().window);
  blocks::FeedForward& e = model.config<blocks::FeedForward>();
  e.routing = blocks::RoutedBy::tokens;
  e.scoring = blocks::Scoring::softmax;
  e.renormalise = true;
  e.capacity_factor = 0;
  e.balance_over = blocks::BalanceOver::model;
  io.size("num_local_experts", e.experts);
  io.size("num_experts_per_tok", e.top_k, 2);
  io.number("router_aux_loss_coef", e.balance_loss, 0.001);
}

/// JSON has no word for infinity; this is the library's own spelling.
base::Json number_json(double value) {
  return std::isinf(value) ? base::Json{{"__float__", "Infinity"}} : base::Json(value);
}

void time_step_limit(HfCodec& io, blocks::Mamba& m) {
  if (io.reads()) {
    const HfInterval limit = io.fields().interval_or("time_step_limit", {0, kInfinity});
    m.dt_limit_low = limit.low;
    m.dt_limit_high = limit.high;
  } else if (m.dt_limit_low > 0 || std::isfinite(m.dt_limit_high)) {
    io.put("time_step_limit", base::Json::array({number_json(m.dt_limit_low), number_json(m.dt_limit_high)}));
  }
}

/// The fields Mamba2 and NemotronH share.
void mamba_mixer(HfCodec& io, blocks::Mamba& m) {
  io.off({"use_bias", "mamba_proj_bias"});
  io.size("n_groups", m.groups, 8);
  io.size("conv_kernel", m.conv_width, 4);
  io.size("chunk_size", m.chunk, 256);
  io.flag("use_conv_bias", m.conv_bias, true);
  io.number("time_step_min", m.dt_min, 1e-3);
  io.number("time_step_max", m.dt_max, 0.1);
  io.number("time_step_floor", m.dt_floor, 1e-4);
  time_step_limit(io, m);
}

/// The inner width is a whole multiple of the hidden size, which the class calls expand.
void expand(HfCodec& io, const recipe::Model& model, const blocks::Mamba& m) {
  if (!io.reads()) {
    io.put("expand", m.inner() % model.hidden == 0
                         ? base::Json(m.inner() / model.hidden)
                         : base::Json(static_cast<double>(m.inner()) / static_cast<double>(model.hidden)));
    return;
  }
  const double inner = io.fields().number_or("expand", 2) * static_cast<double>(model.hidden);
  if (static_cast<double>(m.inner()) != inner)
    io.fields().refuse("num_heads", std::to_string(m.heads), "num_heads x head_dim = expand x hidden_size");
}

void mamba2(HfCodec& io, recipe::Model& model) {
  io.word("hidden_act", {"silu", "swish"});
  if (io.reads() && !io.fields().flag_or("rms_norm", true)) io.fields().refuse("rms_norm", "false", "true");
  language_model(io, model, "layer_norm_epsilon", 1e-5);
  layers(io, model, "M");
  blocks::Mamba& m = model.config<blocks::Mamba>();
  mamba_mixer(io, m);
  io.size("num_heads", m.heads);
  io.size("head_dim", m.head_dim, 64);
  io.size("state_size", m.state, 128);
  m.norm_per_group = false;
  expand(io, model, m);
}

/// A kind of layer of NemotronH, in both ways that configs spell it.
struct LayerKind {
  char ours;
  char theirs;
  std::array<std::string_view, 2> names;
};

constexpr std::array<LayerKind, 3> kLayerKinds = {{{'M', 'M', {"mamba", "linear_attention"}},
                                                   {'A', '*', {"attention", "full_attention"}},
                                                   {'E', '-', {"mlp", "mlp"}}}};

std::string read_layer_names(const HfFields& fields) {
  std::string pattern;
  for (const std::string& type : fields.texts("layers_block_type")) {
    const auto* kind = std::ranges::find_if(
        kLayerKinds, [&](const LayerKind& each) { return each.names[0] == type || each.names[1] == type; });
    if (kind == kLayerKinds.end()) fields.refuse("layers_block_type", type, "mamba, attention or mlp layers");
    pattern += kind->ours;
  }
  return pattern;
}

std::string read_layer_letters(const HfFields& fields) {
  std::string pattern;
  for (const char letter : fields.text_or("hybrid_override_pattern", "")) {
    const auto* kind = std::ranges::find(kLayerKinds, letter, &LayerKind::theirs);
    if (kind == kLayerKinds.end()) {
      fields.refuse("hybrid_override_pattern", std::string("'") + letter + "'", "M (mamba), * (attention) or - (mlp)");
    }
    pattern += kind->ours;
  }
  return pattern;
}

std::string read_nemotron_h_pattern(const HfFields& fields) {
  const std::string pattern = fields.has("layers_block_type") ? read_layer_names(fields) : read_layer_letters(fields);
  if (pattern.empty()) fields.refuse("layers_block_type", "nothing", "the layers' types");
  const auto layers = static_cast<int64_t>(pattern.size());
  if (fields.size_or("num_hidden_layers", layers) != layers) {
    fields.refuse("num_hidden_layers", std::to_string(fields.size("num_hidden_layers")),
                  std::to_string(layers) + " as the pattern has");
  }
  return pattern;
}

/// Letters are read by every version of the library; a letter that is no layer's makes no pattern that reads back.
void nemotron_h_pattern(HfCodec& io, recipe::Model& model) {
  if (io.reads()) {
    model.pattern = read_nemotron_h_pattern(io.fields());
    model.depth = static_cast<int64_t>(model.pattern.size());
    return;
  }
  std::string theirs;
  for (const char letter : model.pattern) {
    const auto* kind = std::ranges::find(kLayerKinds, letter, &LayerKind::ours);
    theirs += kind == kLayerKinds.end() ? letter : kind->theirs;
  }
  io.put("hybrid_override_pattern", theirs);
  io.put("num_hidden_layers", model.depth);
}

void nemotron_h_attention(HfCodec& io, blocks::Attention& a) {
  io.off({"attention_bias", "attention_dropout"});
  io.size("num_attention_heads", a.heads);
  io.size("num_key_value_heads", a.kv_heads, a.heads);
  head_dim(io, a.head_dim);
  a.rope = false;
  io.optional_size("sliding_window", a.window);
}

void nemotron_h_feed_forward(HfCodec& io, blocks::FeedForward& e) {
  io.off({"mlp_bias"});
  io.word("mlp_hidden_act", {"relu2"});
  e.activation = blocks::ActivationFunction::relu2;
  io.size("intermediate_size", e.intermediate);
}

/// The reference path of this class clamps at time_step_min in every forward pass, not only at initialisation.
void clamp_at_smallest_step(HfCodec& io, blocks::Mamba& m) {
  if (!io.reads()) {
    if (m.dt_limit_low < m.dt_min) io.put("time_step_min", m.dt_limit_low);
    return;
  }
  m.dt_limit_low = std::max(m.dt_limit_low, m.dt_min);
  if (m.dt_min == 0) m.dt_min = blocks::Mamba{}.dt_min;  // no clamp; initial steps are not said
}

void nemotron_h_mamba(HfCodec& io, blocks::Mamba& m) {
  io.word("mamba_hidden_act", {"silu", "swish"});
  mamba_mixer(io, m);
  io.size("mamba_num_heads", m.heads);
  io.size("mamba_head_dim", m.head_dim, 64);
  io.size("ssm_state_size", m.state, 128);
  clamp_at_smallest_step(io, m);
}

/// Fields of kinds of layers that the model lacks are not looked at.
void nemotron_h(HfCodec& io, recipe::Model& model) {
  io.off({"hidden_dropout", "num_nextn_predict_layers"});
  language_model(io, model, "layer_norm_epsilon", 1e-5);
  nemotron_h_pattern(io, model);
  if (model.pattern.find('A') != std::string::npos) nemotron_h_attention(io, model.config<blocks::Attention>());
  if (model.pattern.find('E') != std::string::npos) nemotron_h_feed_forward(io, model.config<blocks::FeedForward>());
  if (model.pattern.find('M') != std::string::npos) nemotron_h_mamba(io, model.config<blocks::Mamba>());
}

void recurrent_gemma_block(HfCodec& io, recipe::Model& model) {
  model.pattern = "R";
  model.depth = 1;
  io.size("hidden", model.hidden);
  blocks::Recurrent& r = model.config<blocks::Recurrent>();
  io.size("lru_width", r.width, model.hidden);
  io.size("heads", r.heads);
  io.size("conv", r.conv_width, 4);
  if (io.reads() && r.width % r.heads != 0)
    io.fields().refuse("heads", std::to_string(r.heads), "a divisor of lru_width");
}

constexpr std::array<HfClass, 5> kClasses = {
    {{"LlamaForCausalLM", "llama", llama, [](const recipe::Model& m, HfNaming) { return llama_names(m); }},
     {"MixtralForCausalLM", "mixtral", mixtral, mixtral_names},
     {"Mamba2ForCausalLM", "mamba2", mamba2, [](const recipe::Model& m, HfNaming) { return mamba2_names(m); }},
     {"NemotronHForCausalLM", "nemotron_h", nemotron_h, nemotron_h_names},
     {.name = "RecurrentGemmaRecurrentBlock",
      .model_type = "",
      .fields = recurrent_gemma_block,
      .names = [](const recipe::Model& m, HfNaming) { return recurrent_gemma_block_names(m); },
      .is_lone_block = true}}};

}  // namespace

std::span<const HfClass> hf_classes() { return kClasses; }

}  // namespace megacpp::checkpoint
