// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_parts.h"

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

namespace megacpp::checkpoint {

void language_model(HfCodec& io, recipe::Model& model, const LanguageDefaults& otherwise) {
  io.off({"quantization_config"});
  io.size("hidden_size", model.hidden);
  io.size("vocab_size", model.vocab);
  io.number(otherwise.eps_field, model.norm_eps, otherwise.eps);
  io.flag("tie_word_embeddings", model.tie_embeddings, otherwise.tie);
  io.number("initializer_range", model.init_std, 0.02);
}

void layers(HfCodec& io, recipe::Model& model, const char* blocks) {
  const auto per_layer = static_cast<int64_t>(std::string_view(blocks).size());
  int64_t count = model.depth / per_layer;
  io.size("num_hidden_layers", count);
  model.depth = per_layer * count;
  model.pattern = blocks;
}

int64_t hidden_per_head(const HfFields& fields) {
  const int64_t hidden = fields.size("hidden_size");
  const int64_t heads = fields.size("num_attention_heads");
  if (hidden % heads != 0)
    fields.refuse("num_attention_heads", std::to_string(heads), "a divisor of hidden_size, or head_dim");
  return hidden / heads;
}

void heads(HfCodec& io, blocks::Attention& a, const HeadDefaults& otherwise) {
  io.off({"attention_dropout"});
  io.size("num_attention_heads", a.heads);
  if (!io.reads()) {
    io.put("num_key_value_heads", a.kv_heads);
    io.put("head_dim", a.head_dim);
    return;
  }
  const HfFields& fields = io.fields();
  const auto or_default = [&fields](const char* field, int64_t of_class, int64_t of_null) {
    if (!fields.mentions(field) && of_class != 0) return of_class;
    return fields.size_or(field, of_null);
  };
  a.kv_heads = or_default("num_key_value_heads", otherwise.kv_heads, a.heads);
  const bool is_divided = !fields.has("head_dim") && (otherwise.head_dim == 0 || fields.mentions("head_dim"));
  a.head_dim = is_divided ? hidden_per_head(fields) : or_default("head_dim", otherwise.head_dim, otherwise.head_dim);
}

void attention_bias(HfCodec& io, blocks::Attention& a, bool otherwise) {
  io.flag("attention_bias", a.qkv_bias, otherwise);
  if (io.reads()) a.out_bias = a.qkv_bias;
}

void window(HfCodec& io, blocks::Attention& a, int64_t otherwise) {
  io.optional_size("sliding_window", a.window);
  if (io.reads() && !io.fields().mentions("sliding_window")) a.window = otherwise;
}

void gated_silu(HfCodec& io, blocks::FeedForward& e, std::string_view field) {
  io.word(field, {"silu", "swish"});
  if (io.reads()) e.activation = blocks::ActivationFunction::swiglu;
}

void gated_gelu(HfCodec& io, blocks::FeedForward& e, std::string_view field) {
  io.word(field, {"gelu_pytorch_tanh", "gelu_new"});
  if (io.reads()) e.activation = blocks::ActivationFunction::geglu;
}

void routed_by_tokens(blocks::FeedForward& e) {
  e.routing = blocks::RoutedBy::tokens;
  e.capacity_factor = 0;
  e.balance_over = blocks::BalanceOver::model;
}

void balance_when_asked(HfCodec& io, blocks::FeedForward& e) {
  bool is_asked = e.balance_loss > 0;
  io.flag("output_router_logits", is_asked, false);
  io.number("router_aux_loss_coef", e.balance_loss, 0.001);
  if (io.reads() && !is_asked) e.balance_loss = 0;
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// As the library spells infinity.
base::Json number_json(double value) {
  return std::isinf(value) ? base::Json{{"__float__", "Infinity"}} : base::Json(value);
}

}  // namespace

void time_step_limit(HfCodec& io, blocks::Mamba& m) {
  if (io.reads()) {
    const HfInterval limit = io.fields().interval_or("time_step_limit", {0, kInfinity});
    m.dt_limit_low = limit.low;
    m.dt_limit_high = limit.high;
  } else if (m.dt_limit_low > 0 || std::isfinite(m.dt_limit_high) || io.writes_over("time_step_limit")) {
    io.put("time_step_limit", base::Json::array({number_json(m.dt_limit_low), number_json(m.dt_limit_high)}));
  }
}

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

void bamba_mixer(HfCodec& io, const recipe::Model& model, blocks::Mamba& m) {
  io.off({"mamba_proj_bias"});
  io.size("mamba_n_heads", m.heads, 128);
  io.size("mamba_n_groups", m.groups, 1);
  io.size("mamba_d_state", m.state, 256);
  io.size("mamba_d_conv", m.conv_width, 4);
  io.size("mamba_chunk_size", m.chunk, 256);
  io.flag("mamba_conv_bias", m.conv_bias, true);
  time_step_limit(io, m);
  if (!io.reads()) {
    io.put("mamba_d_head", m.head_dim);
    io.put("mamba_expand", m.inner() / model.hidden);
    return;
  }
  const HfFields& fields = io.fields();
  m.norm_per_group = false;
  const int64_t inner = fields.size_or("mamba_expand", 2) * model.hidden;
  const bool is_given = fields.has("mamba_d_head") && !fields.is_text("mamba_d_head");
  if (!is_given) fields.require_one_of("mamba_d_head", {"auto"});
  m.head_dim = is_given ? fields.size("mamba_d_head") : inner / m.heads;
  if (m.inner() != inner)
    fields.refuse("mamba_n_heads", std::to_string(m.heads),
                  "mamba_n_heads x mamba_d_head = mamba_expand x hidden_size");
}

}  // namespace megacpp::checkpoint
