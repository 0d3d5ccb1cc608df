// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_gemma.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "megacpp/run/checkpoint/hf_parts.h"

namespace megacpp::checkpoint {

void gemma(HfCodec& io, recipe::Model& model) {
  io.off({"use_bidirectional_attention"});
  language_model(io, model, {.tie = true});
  model.norm_place = recipe::NormPlace::both;
  model.norm_plus_one = true;
  model.embed_scale = std::sqrt(static_cast<double>(model.hidden));
  auto& e = model.config<blocks::FeedForward>();
  gated_gelu(io, e, "hidden_activation");
  io.size("intermediate_size", e.intermediate);
}

void query_scalar(HfCodec& io, blocks::Attention& a) {
  constexpr int64_t kUsual = 256;
  const auto width = static_cast<double>(a.head_dim);
  if (!io.reads()) {
    const double scalar = a.scale > 0 ? 1 / (a.scale * a.scale) : width;
    const bool is_whole = std::abs(scalar - std::round(scalar)) < 1e-9 * scalar;
    io.put("query_pre_attn_scalar",
           is_whole ? base::Json(static_cast<int64_t>(std::round(scalar))) : base::Json(scalar));
    return;
  }
  const double scalar = io.fields().number_or("query_pre_attn_scalar", kUsual);
  if (scalar <= 0 || std::isinf(scalar))
    io.fields().refuse("query_pre_attn_scalar", std::to_string(scalar), "a number above 0");
  a.scale = scalar == width ? 0 : 1 / std::sqrt(scalar);
}

}  // namespace megacpp::checkpoint
