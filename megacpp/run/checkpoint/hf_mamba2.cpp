// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "megacpp/run/checkpoint/hf_classes.h"
#include "megacpp/run/checkpoint/hf_parts.h"

namespace megacpp::checkpoint {
namespace {

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

void mamba2_fields(HfCodec& io, recipe::Model& model) {
  io.word("hidden_act", {"silu", "swish"});
  if (io.reads() && !io.fields().flag_or("rms_norm", true)) io.fields().refuse("rms_norm", "false", "true");
  language_model(io, model, {.eps_field = "layer_norm_epsilon", .eps = 1e-5});
  layers(io, model, "M");
  blocks::Mamba& m = model.config<blocks::Mamba>();
  mamba_mixer(io, m);
  io.size("num_heads", m.heads);
  io.size("head_dim", m.head_dim, 64);
  io.size("state_size", m.state, 128);
  m.norm_per_group = false;
  expand(io, model, m);
}

}  // namespace

HfClass mamba2_class() {
  return {.name = "Mamba2ForCausalLM",
          .model_type = "mamba2",
          .fields = mamba2_fields,
          .names = [](const recipe::Model& m, HfNaming) { return name_one_block_layers(m, "backbone."); }};
}

}  // namespace megacpp::checkpoint
