// SPDX-License-Identifier: Apache-2.0
#include "megacpp/checkpoint/hf_config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "megacpp/base/error.h"
#include "megacpp/base/suggest.h"
#include "megacpp/blocks/attention.h"
#include "megacpp/blocks/feed_forward.h"
#include "megacpp/blocks/mamba.h"
#include "megacpp/blocks/recurrent.h"
#include "megacpp/checkpoint/hf_fields.h"
#include "megacpp/recipe/validate.h"

namespace megacpp::checkpoint {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Base of the rotary wavelengths; every other rotary option is refused.
double rope_theta(const HfFields& fields, double otherwise) {
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

int64_t hidden_per_head(const HfFields& fields) {
  const int64_t hidden = fields.size("hidden_size");
  const int64_t heads = fields.size("num_attention_heads");
  if (hidden % heads != 0)
    fields.refuse("num_attention_heads", std::to_string(heads), "a divisor of hidden_size, or head_dim");
  return hidden / heads;
}

/// The sizes must pass the same gates as a recipe's, and must do so before names are made for every layer.
void check_sizes(const recipe::Model& model) {
  constexpr int64_t kAnyVocab = 2;  // a lone block has none
  recipe::Recipe recipe;
  recipe.name = model.name;
  recipe.model = model;
  if (model.vocab == 0) recipe.model.vocab = kAnyVocab;
  recipe.train.batch = recipe.train.sequence = recipe.train.steps = 1;
  recipe::validate(recipe);
}

/// What every class with a vocabulary has.
recipe::Model language_model(const HfFields& fields, const std::string& cls, const char* eps_field, double eps) {
  fields.require_off({"quantization_config"});
  recipe::Model model;
  model.name = cls;
  model.hidden = fields.size("hidden_size");
  model.vocab = fields.size("vocab_size");
  model.norm_eps = fields.number_or(eps_field, eps);
  model.tie_embeddings = fields.flag_or("tie_word_embeddings", false);
  model.init_std = fields.number_or("initializer_range", 0.02);
  return model;
}

/// Layers of an A and an E block with rotary attention and SwiGLU: Llama and Mixtral.
recipe::Model rotary_transformer(const HfFields& fields, const std::string& cls, double eps, double theta) {
  fields.require_off({"attention_bias", "mlp_bias", "attention_dropout"});
  fields.require_one_of("hidden_act", {"silu", "swish"});
  recipe::Model model = language_model(fields, cls, "rms_norm_eps", eps);
  model.pattern = "AE";
  model.depth = 2 * fields.size("num_hidden_layers");
  blocks::Attention& a = model.config<blocks::Attention>();
  a.heads = fields.size("num_attention_heads");
  a.kv_heads = fields.size_or("num_key_value_heads", a.heads);
  a.head_dim = fields.has("head_dim") ? fields.size("head_dim") : hidden_per_head(fields);
  a.rope_theta = rope_theta(fields, theta);
  a.window = fields.size_or("sliding_window", 0);
  blocks::FeedForward& e = model.config<blocks::FeedForward>();
  e.activation = "swiglu";
  e.intermediate = fields.size("intermediate_size");
  return model;
}

HfModel llama(const HfFields& fields, const std::string& cls, HfNaming) {
  const recipe::Model model = rotary_transformer(fields, cls, 1e-6, 10000);
  check_sizes(model);
  return {.cls = cls, .model = model, .names = llama_names(model)};
}

HfModel mixtral(const HfFields& fields, const std::string& cls, HfNaming naming) {
  fields.require_off({"router_jitter_noise"});
  recipe::Model model = rotary_transformer(fields, cls, 1e-5, 1e6);
  blocks::FeedForward& e = model.config<blocks::FeedForward>();
  e.experts = fields.size("num_local_experts");
  e.top_k = fields.size_or("num_experts_per_tok", 2);
  e.routing = "token_choice";
  e.scoring = "softmax";
  e.renormalise = true;
  e.capacity_factor = 0;
  e.balance_over = "model";
  e.balance_loss = fields.number_or("router_aux_loss_coef", 0.001);
  check_sizes(model);
  return {.cls = cls, .model = model, .names = mixtral_names(model, naming)};
}

/// The fields Mamba2 and NemotronH share.
blocks::Mamba mamba_mixer(const HfFields& fields) {
  fields.require_off({"use_bias", "mamba_proj_bias"});
  blocks::Mamba m;
  m.groups = fields.size_or("n_groups", 8);
  m.conv_width = fields.size_or("conv_kernel", 4);
  m.chunk = fields.size_or("chunk_size", 256);
  m.conv_bias = fields.flag_or("use_conv_bias", true);
  m.dt_min = fields.number_or("time_step_min", 1e-3);
  m.dt_max = fields.number_or("time_step_max", 0.1);
  m.dt_floor = fields.number_or("time_step_floor", 1e-4);
  const HfInterval limit = fields.interval_or("time_step_limit", {0, kInfinity});
  m.dt_limit_low = limit.low;
  m.dt_limit_high = limit.high;
  return m;
}

HfModel mamba2(const HfFields& fields, const std::string& cls, HfNaming) {
  fields.require_one_of("hidden_act", {"silu", "swish"});
  if (!fields.flag_or("rms_norm", true)) fields.refuse("rms_norm", "false", "true");
  recipe::Model model = language_model(fields, cls, "layer_norm_epsilon", 1e-5);
  model.pattern = "M";
  model.depth = fields.size("num_hidden_layers");
  blocks::Mamba& m = model.config<blocks::Mamba>();
  m = mamba_mixer(fields);
  m.heads = fields.size("num_heads");
  m.head_dim = fields.size_or("head_dim", 64);
  m.state = fields.size_or("state_size", 128);
  m.norm_per_group = false;
  const double inner = fields.number_or("expand", 2) * static_cast<double>(model.hidden);
  if (static_cast<double>(m.inner()) != inner) {
    fields.refuse("num_heads", std::to_string(m.heads), "num_heads x head_dim = expand x hidden_size");
  }
  check_sizes(model);
  return {.cls = cls, .model = model, .names = mamba2_names(model)};
}

/// Our letters for NemotronH's layers, from either way the config spells them.
std::string nemotron_h_pattern(const HfFields& fields) {
  std::string pattern;
  if (fields.has("layers_block_type")) {
    for (const std::string& type : fields.texts("layers_block_type")) {
      const bool is_mamba = type == "mamba" || type == "linear_attention";
      const bool is_attention = type == "attention" || type == "full_attention";
      if (!is_mamba && !is_attention && type != "mlp")
        fields.refuse("layers_block_type", type, "mamba, attention or mlp layers");
      pattern += is_mamba ? 'M' : is_attention ? 'A' : 'E';
    }
  } else {
    for (const char letter : fields.text_or("hybrid_override_pattern", "")) {
      if (letter != 'M' && letter != '*' && letter != '-') {
        fields.refuse("hybrid_override_pattern", std::string("'") + letter + "'",
                      "M (mamba), * (attention) or - (mlp)");
      }
      pattern += letter == '*' ? 'A' : letter == '-' ? 'E' : 'M';
    }
  }
  if (pattern.empty()) fields.refuse("layers_block_type", "nothing", "the layers' types");
  const auto layers = static_cast<int64_t>(pattern.size());
  if (fields.size_or("num_hidden_layers", layers) != layers) {
    fields.refuse("num_hidden_layers", std::to_string(fields.size("num_hidden_layers")),
                  std::to_string(layers) + " as the pattern has");
  }
  return pattern;
}

blocks::Attention nemotron_h_attention(const HfFields& fields) {
  fields.require_off({"attention_bias", "attention_dropout"});
  blocks::Attention a;
  a.heads = fields.size("num_attention_heads");
  a.kv_heads = fields.size_or("num_key_value_heads", a.heads);
  const char* head_dim = fields.has("head_dim") ? "head_dim" : "attention_head_dim";
  a.head_dim = fields.has(head_dim) ? fields.size(head_dim) : hidden_per_head(fields);
  a.rope = false;
  a.window = fields.size_or("sliding_window", 0);
  return a;
}

blocks::FeedForward nemotron_h_feed_forward(const HfFields& fields) {
  fields.require_off({"mlp_bias"});
  fields.require_one_of("mlp_hidden_act", {"relu2"});
  blocks::FeedForward e;
  e.activation = "relu2";
  e.intermediate = fields.size("intermediate_size");
  return e;
}

blocks::Mamba nemotron_h_mamba(const HfFields& fields) {
  fields.require_one_of("mamba_hidden_act", {"silu", "swish"});
  blocks::Mamba m = mamba_mixer(fields);
  m.heads = fields.size("mamba_num_heads");
  m.head_dim = fields.size_or("mamba_head_dim", 64);
  m.state = fields.size_or("ssm_state_size", 128);
  // The reference path of this class clamps at time_step_min in every forward pass, not only at initialisation.
  m.dt_limit_low = std::max(m.dt_limit_low, m.dt_min);
  return m;
}

/// Fields of kinds of layers that the model lacks are not looked at.
void read_nemotron_h_blocks(const HfFields& fields, blocks::Config& config) {
  if (auto* a = config.get_if<blocks::Attention>()) *a = nemotron_h_attention(fields);
  if (auto* e = config.get_if<blocks::FeedForward>()) *e = nemotron_h_feed_forward(fields);
  if (auto* m = config.get_if<blocks::Mamba>()) *m = nemotron_h_mamba(fields);
}

HfModel nemotron_h(const HfFields& fields, const std::string& cls, HfNaming naming) {
  fields.require_off({"hidden_dropout", "num_nextn_predict_layers"});
  recipe::Model model = language_model(fields, cls, "layer_norm_epsilon", 1e-5);
  model.pattern = nemotron_h_pattern(fields);
  model.depth = static_cast<int64_t>(model.pattern.size());
  for (const char letter : std::set<char>(model.pattern.begin(), model.pattern.end()))
    read_nemotron_h_blocks(fields, model.families.at(letter));
  check_sizes(model);
  return {.cls = cls, .model = model, .names = nemotron_h_names(model, naming)};
}

HfModel recurrent_gemma_block(const HfFields& fields, const std::string& cls, HfNaming) {
  recipe::Model model;
  model.name = cls;
  model.pattern = "R";
  model.depth = 1;
  model.hidden = fields.size("hidden");
  blocks::Recurrent& r = model.config<blocks::Recurrent>();
  r.width = fields.size_or("lru_width", model.hidden);
  r.heads = fields.size("heads");
  r.conv_width = fields.size_or("conv", 4);
  if (r.width % r.heads != 0) {
    fields.refuse("heads", std::to_string(r.heads), "a divisor of lru_width");
  }
  check_sizes(model);
  return {.cls = cls, .model = model, .names = recurrent_gemma_block_names(model), .lone_block = true};
}

struct ClassRecord {
  const char* name;
  HfModel (*import)(const HfFields& fields, const std::string& cls, HfNaming naming);
};

constexpr std::array<ClassRecord, 5> kClasses = {{{"LlamaForCausalLM", llama},
                                                  {"MixtralForCausalLM", mixtral},
                                                  {"Mamba2ForCausalLM", mamba2},
                                                  {"NemotronHForCausalLM", nemotron_h},
                                                  {"RecurrentGemmaRecurrentBlock", recurrent_gemma_block}}};

}  // namespace

HfModel import_hf_config(const std::string& cls, const base::Json& config, HfNaming naming) {
  std::vector<std::string> known;
  for (const ClassRecord& record : kClasses) {
    known.emplace_back(record.name);
    if (cls != record.name) continue;
    return record.import(HfFields(config, cls), cls, naming);
  }
  std::string wanted;
  for (const std::string& name : known) wanted += (wanted.empty() ? "" : ", ") + name;
  base::raise(base::Code::E1202, {.where = "model class",
                                  .got = cls.empty() ? "an empty name" : cls,
                                  .wanted = wanted,
                                  .next = base::did_you_mean(cls, known, "use a model of one of these classes")});
}

std::string hf_class_of(const base::Json& config) {
  const HfFields fields(config, "config.json");
  const std::vector<std::string> classes = fields.texts("architectures");
  if (classes.size() != 1) fields.refuse("architectures", std::to_string(classes.size()) + " classes", "one class");
  return classes.front();
}

}  // namespace megacpp::checkpoint
