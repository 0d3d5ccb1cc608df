// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_names.h"

#include <fmt/format.h>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/pattern.h"

namespace megacpp::checkpoint {
namespace {

/// Collects pieces under a prefix on each side.
class Names {
 public:
  explicit Names(const recipe::Model& model) : model_(model) {}

  void at(std::string ours, std::string theirs) {
    ours_ = std::move(ours);
    theirs_ = std::move(theirs);
  }

  /// Same elements in the same order.
  void plain(const std::string& ours, const std::string& theirs, ir::Shape our_shape, ir::Shape their_shape) {
    map_.pieces.push_back({.ours = ours_ + ours,
                           .our_shape = std::move(our_shape),
                           .theirs = theirs_ + theirs,
                           .their_shape = std::move(their_shape)});
  }
  void plain(const std::string& ours, const std::string& theirs, const ir::Shape& shape) {
    plain(ours, theirs, shape, shape);
  }

  /// Our [in, out] from their [out, in].
  void linear(const std::string& ours, const std::string& theirs, int64_t in, int64_t out) {
    map_.pieces.push_back({.ours = ours_ + ours,
                           .our_shape = {in, out},
                           .theirs = theirs_ + theirs,
                           .their_shape = {out, in},
                           .transposed = true});
  }

  void piece(NamePiece piece) {
    piece.ours = ours_ + piece.ours;
    piece.theirs = theirs_ + piece.theirs;
    map_.pieces.push_back(std::move(piece));
  }

  /// Embedding, final norm and head, around the blocks.
  void ends(const std::string& embedding, const std::string& final_norm) {
    at("", "");
    plain("embed.weight", embedding, {model_.vocab, model_.hidden});
    plain("final_norm.weight", final_norm, {model_.hidden});
    if (model_.tie_embeddings) {
      map_.ignored.push_back("lm_head.weight");
    } else {
      linear("head.weight", "lm_head.weight", model_.hidden, model_.vocab);
    }
  }

  NameMap done() { return std::move(map_); }

 private:
  const recipe::Model& model_;
  NameMap map_;
  std::string ours_;
  std::string theirs_;
};

/// "block03.E."
std::string block(int64_t index, char letter) { return fmt::format("block{:02}.{}.", index, letter); }

/// q, k, v, o projections; `at` stands at the attention module.
void attention(Names& names, const recipe::Model& model, const blocks::Attention& a) {
  names.linear("wq", "q_proj.weight", model.hidden, a.heads * a.head_dim);
  names.linear("wk", "k_proj.weight", model.hidden, a.kv_heads * a.head_dim);
  names.linear("wv", "v_proj.weight", model.hidden, a.kv_heads * a.head_dim);
  names.linear("wo", "o_proj.weight", a.heads * a.head_dim, model.hidden);
}

void mlp(Names& names, const recipe::Model& model, const blocks::FeedForward& config) {
  const int64_t f = config.intermediate;
  if (config.is_gated()) names.linear("w_gate", "gate_proj.weight", model.hidden, f);
  names.linear("w_up", "up_proj.weight", model.hidden, f);
  names.linear("w_down", "down_proj.weight", f, model.hidden);
}

/// Experts fused as [E, 2f, h] (gate rows, then up rows) and [E, h, f].
void fused_experts(Names& names, const recipe::Model& model, const blocks::FeedForward& config) {
  const int64_t e = config.experts;
  const int64_t f = config.intermediate;
  const int64_t h = model.hidden;
  NamePiece gate = {.ours = "w_gate",
                    .our_shape = {e, h, f},
                    .theirs = "experts.gate_up_proj",
                    .their_shape = {e, 2 * f, h},
                    .transposed = true};
  NamePiece up = gate;
  up.ours = "w_up";
  up.row_begin = f;
  names.linear("router", "gate.weight", h, e);
  names.piece(std::move(gate));
  names.piece(std::move(up));
  names.piece({.ours = "w_down",
               .our_shape = {e, f, h},
               .theirs = "experts.down_proj",
               .their_shape = {e, h, f},
               .transposed = true});
}

/// Experts one by one: w1 gate [f, h], w3 up [f, h], w2 down [h, f].
void single_experts(Names& names, const recipe::Model& model, const blocks::FeedForward& config) {
  const int64_t e = config.experts;
  const int64_t f = config.intermediate;
  const int64_t h = model.hidden;
  names.linear("router", "gate.weight", h, e);
  const auto expert = [&](const char* ours, const char* theirs, int64_t j, int64_t in, int64_t out) {
    names.piece({.ours = ours,
                 .our_shape = {e, in, out},
                 .theirs = fmt::format("experts.{}.{}.weight", j, theirs),
                 .their_shape = {out, in},
                 .transposed = true,
                 .slice_begin = j});
  };
  for (int64_t j = 0; j < e; ++j) {
    expert("w_gate", "w1", j, h, f);
    expert("w_up", "w3", j, h, f);
    expert("w_down", "w2", j, f, h);
  }
}

/// The parts of a fused tensor along its rows, in their order: our name, how many rows.
using Parts = std::vector<std::pair<std::string, int64_t>>;

int64_t rows_of(const Parts& parts) {
  int64_t rows = 0;
  for (const auto& [name, count] : parts) rows += count;
  return rows;
}

void fused_in_proj(Names& names, int64_t hidden, const Parts& parts) {
  int64_t row = 0;
  for (const auto& [name, rows] : parts) {
    names.piece({.ours = "in_proj." + name,
                 .our_shape = {hidden, rows},
                 .theirs = "in_proj.weight",
                 .their_shape = {rows_of(parts), hidden},
                 .transposed = true,
                 .row_begin = row});
    row += rows;
  }
}

void fused_conv(Names& names, const blocks::Mamba& m, const Parts& parts) {
  int64_t row = 0;
  for (const auto& [name, rows] : parts) {
    names.piece({.ours = "conv." + name + ".weight",
                 .our_shape = {rows, m.conv_width},
                 .theirs = "conv1d.weight",
                 .their_shape = {rows_of(parts), 1, m.conv_width},
                 .row_begin = row});
    if (m.conv_bias)
      names.piece({.ours = "conv." + name + ".bias",
                   .our_shape = {rows},
                   .theirs = "conv1d.bias",
                   .their_shape = {rows_of(parts)},
                   .row_begin = row});
    row += rows;
  }
}

void mamba(Names& names, const recipe::Model& model, const blocks::Mamba& m) {
  const int64_t inner = m.heads * m.head_dim;
  const int64_t state = m.groups * m.state;
  fused_in_proj(names, model.hidden, {{"z", inner}, {"x", inner}, {"B", state}, {"C", state}, {"dt", m.heads}});
  fused_conv(names, m, {{"x", inner}, {"B", state}, {"C", state}});
  names.plain("dt_bias", "dt_bias", {m.heads});
  names.plain("A_log", "A_log", {m.heads});
  names.plain("D", "D", {m.heads});
  names.plain("gate_norm.weight", "norm.weight", {inner});
  names.linear("out_proj", "out_proj.weight", inner, model.hidden);
}

/// Layers of an attention block and a feed-forward block each.
template <typename FeedForwardNames>
NameMap two_block_layers(const recipe::Model& model, const std::string& feed_forward_module,
                         const FeedForwardNames& feed_forward) {
  Names names(model);
  names.ends("model.embed_tokens.weight", "model.norm.weight");
  const std::vector<char> letters = recipe::expand(model).letters;
  for (int64_t layer = 0; layer < model.depth / 2; ++layer) {
    const std::string theirs = fmt::format("model.layers.{}.", layer);
    const char mixer = letters[static_cast<size_t>(2 * layer)], second = letters[static_cast<size_t>(2 * layer + 1)];
    const std::string a = block(2 * layer, mixer);
    const std::string e = block(2 * layer + 1, second);
    names.at(a, theirs);
    names.plain("norm.weight", "input_layernorm.weight", {model.hidden});
    names.at(a, theirs + "self_attn.");
    attention(names, model, recipe::config_of(model, mixer).as<blocks::Attention>());
    names.at(e, theirs);
    names.plain("norm.weight", "post_attention_layernorm.weight", {model.hidden});
    names.at(e, theirs + feed_forward_module);
    feed_forward(names, model, recipe::config_of(model, second).as<blocks::FeedForward>());
  }
  return names.done();
}

/// Layers of one block each: a norm and a mixer.
NameMap one_block_layers(const recipe::Model& model, const std::string& root) {
  Names names(model);
  names.ends(root + "embeddings.weight", root + "norm_f.weight");
  const std::vector<char> letters = recipe::expand(model).letters;
  for (int64_t layer = 0; layer < model.depth; ++layer) {
    const char letter = letters[static_cast<size_t>(layer)];
    const std::string theirs = fmt::format("{}layers.{}.", root, layer);
    names.at(block(layer, letter), theirs);
    names.plain("norm.weight", "norm.weight", {model.hidden});
    names.at(block(layer, letter), theirs + "mixer.");
    const blocks::Config config = recipe::config_of(model, letter);
    if (const auto* a = config.get_if<blocks::Attention>()) attention(names, model, *a);
    if (const auto* m = config.get_if<blocks::Mamba>()) mamba(names, model, *m);
    if (const auto* e = config.get_if<blocks::FeedForward>()) mlp(names, model, *e);
  }
  return names.done();
}

}  // namespace

HfNaming naming_of(std::string_view tensor_name) {
  const bool single_experts = tensor_name.find(".block_sparse_moe.") != std::string_view::npos;
  return single_experts || tensor_name.starts_with("backbone.") ? HfNaming::on_disk : HfNaming::in_memory;
}

NameMap llama_names(const recipe::Model& model) { return two_block_layers(model, "mlp.", mlp); }

NameMap mixtral_names(const recipe::Model& model, HfNaming naming) {
  if (naming == HfNaming::on_disk) return two_block_layers(model, "block_sparse_moe.", single_experts);
  return two_block_layers(model, "mlp.", fused_experts);
}

NameMap mamba2_names(const recipe::Model& model) { return one_block_layers(model, "backbone."); }

NameMap nemotron_h_names(const recipe::Model& model, HfNaming naming) {
  return one_block_layers(model, naming == HfNaming::on_disk ? "backbone." : "model.");
}

NameMap recurrent_gemma_block_names(const recipe::Model& model) {
  const blocks::Recurrent& r = model.config<blocks::Recurrent>();
  const int64_t block_width = r.width / r.heads;
  Names names(model);
  names.at(block(0, recipe::expand(model).letters[0]), "");
  names.linear("linear_x.weight", "linear_x.weight", model.hidden, r.width);
  names.plain("linear_x.bias", "linear_x.bias", {r.width});
  names.linear("linear_y.weight", "linear_y.weight", model.hidden, r.width);
  names.plain("linear_y.bias", "linear_y.bias", {r.width});
  names.plain("conv.weight", "conv_1d.weight", {r.width, r.conv_width}, {r.width, 1, r.conv_width});
  names.plain("conv.bias", "conv_1d.bias", {r.width});
  // The gates multiply from the left as stored, so they are already [in, out].
  names.plain("input_gate.weight", "rg_lru.input_gate_weight", {r.heads, block_width, block_width});
  names.plain("input_gate.bias", "rg_lru.input_gate_bias", {r.heads, block_width});
  names.plain("recurrent_gate.weight", "rg_lru.recurrent_gate_weight", {r.heads, block_width, block_width});
  names.plain("recurrent_gate.bias", "rg_lru.recurrent_gate_bias", {r.heads, block_width});
  names.plain("p", "rg_lru.recurrent_param", {r.width});
  names.linear("linear_out.weight", "linear_out.weight", r.width, model.hidden);
  names.plain("linear_out.bias", "linear_out.bias", {model.hidden});
  return names.done();
}

}  // namespace megacpp::checkpoint
