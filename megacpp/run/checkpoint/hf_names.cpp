// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/hf_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "megacpp/program/blocks/recurrent.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/pattern.h"

namespace megacpp::checkpoint {
namespace {

/// The parts of a fused tensor along its rows, in their order: our name, how many rows.
using Parts = std::vector<std::pair<std::string, int64_t>>;

int64_t rows_of(const Parts& parts) {
  int64_t rows = 0;
  for (const auto& [name, count] : parts) rows += count;
  return rows;
}

void fused_in_proj(HfNames& names, int64_t hidden, const Parts& parts) {
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

void fused_conv(HfNames& names, const blocks::Mamba& m, const Parts& parts) {
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

}  // namespace

void name_mamba(HfNames& names, const blocks::Mamba& m) {
  const int64_t inner = m.heads * m.head_dim;
  const int64_t state = m.groups * m.state;
  fused_in_proj(names, names.model().hidden, {{"z", inner}, {"x", inner}, {"B", state}, {"C", state}, {"dt", m.heads}});
  fused_conv(names, m, {{"x", inner}, {"B", state}, {"C", state}});
  names.plain("dt_bias", "dt_bias", {m.heads});
  names.plain("A_log", "A_log", {m.heads});
  names.plain("D", "D", {m.heads});
  names.plain("gate_norm.weight", "norm.weight", {inner});
  names.linear("out_proj", "out_proj.weight", inner, names.model().hidden);
}

void HfNames::at(std::string ours, std::string theirs) {
  ours_ = std::move(ours);
  theirs_ = std::move(theirs);
}

void HfNames::plain(const std::string& ours, const std::string& theirs, ir::Shape our_shape, ir::Shape their_shape) {
  piece({.ours = ours, .our_shape = std::move(our_shape), .theirs = theirs, .their_shape = std::move(their_shape)});
}

void HfNames::plain(const std::string& ours, const std::string& theirs, const ir::Shape& shape) {
  plain(ours, theirs, shape, shape);
}

void HfNames::linear(const std::string& ours, const std::string& theirs, int64_t in, int64_t out) {
  piece({.ours = ours, .our_shape = {in, out}, .theirs = theirs, .their_shape = {out, in}, .transposed = true});
}

void HfNames::piece(NamePiece piece) {
  piece.ours = ours_ + piece.ours;
  piece.theirs = theirs_ + piece.theirs;
  map_.pieces.push_back(std::move(piece));
}

void HfNames::ends(const std::string& embedding, const std::string& final_norm) {
  at("", "");
  plain("embed.weight", embedding, {model_.vocab, model_.hidden});
  plain("final_norm.weight", final_norm, {model_.hidden});
  if (model_.tie_embeddings) {
    map_.ignored.push_back("lm_head.weight");
  } else {
    linear("head.weight", "lm_head.weight", model_.hidden, model_.vocab);
  }
}

std::string hf_block(int64_t index, char letter) { return fmt::format("block{:02}.{}.", index, letter); }

void name_attention(HfNames& names, const blocks::Attention& a) {
  const int64_t hidden = names.model().hidden, q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
  names.linear("wq", "q_proj.weight", hidden, q);
  names.linear("wk", "k_proj.weight", hidden, kv);
  names.linear("wv", "v_proj.weight", hidden, kv);
  names.linear("wo", "o_proj.weight", q, hidden);
  if (a.qk_norm) {
    const bool is_whole = a.qk_norm_over == blocks::NormOver::heads;
    names.plain("q_norm", "q_norm.weight", {is_whole ? q : a.head_dim});
    names.plain("k_norm", "k_norm.weight", {is_whole ? kv : a.head_dim});
  }
  if (a.qkv_bias) {
    names.plain("bq", "q_proj.bias", {q});
    names.plain("bk", "k_proj.bias", {kv});
    names.plain("bv", "v_proj.bias", {kv});
  }
  if (a.out_bias) names.plain("bo", "o_proj.bias", {hidden});
  if (a.sinks) names.plain("sinks", "sinks", {a.heads});
}

void name_recurrent(HfNames& names, const blocks::Config& config) {
  const auto& r = config.as<blocks::Recurrent>();
  const int64_t hidden = names.model().hidden, block_width = r.block_width();
  names.linear("linear_x.weight", "linear_x.weight", hidden, r.width);
  names.plain("linear_x.bias", "linear_x.bias", {r.width});
  names.linear("linear_y.weight", "linear_y.weight", hidden, r.width);
  names.plain("linear_y.bias", "linear_y.bias", {r.width});
  names.plain("conv.weight", "conv_1d.weight", {r.width, r.conv_width}, {r.width, 1, r.conv_width});
  names.plain("conv.bias", "conv_1d.bias", {r.width});
  // The gates multiply from the left as stored, so they are already [in, out].
  names.plain("input_gate.weight", "rg_lru.input_gate_weight", {r.heads, block_width, block_width});
  names.plain("input_gate.bias", "rg_lru.input_gate_bias", {r.heads, block_width});
  names.plain("recurrent_gate.weight", "rg_lru.recurrent_gate_weight", {r.heads, block_width, block_width});
  names.plain("recurrent_gate.bias", "rg_lru.recurrent_gate_bias", {r.heads, block_width});
  names.plain("p", "rg_lru.recurrent_param", {r.width});
  names.linear("linear_out.weight", "linear_out.weight", r.width, hidden);
  names.plain("linear_out.bias", "linear_out.bias", {hidden});
}

void name_mlp(HfNames& names, const blocks::FeedForward& e, int64_t intermediate, const std::string& ours,
              const std::string& theirs) {
  const int64_t hidden = names.model().hidden;
  const auto add = [&](const std::string& name, int64_t in, int64_t out) {
    names.linear(ours + "w_" + name, theirs + name + "_proj.weight", in, out);
    if (e.bias) names.plain(ours + "b_" + name, theirs + name + "_proj.bias", {out});
  };
  if (e.is_gated()) add("gate", hidden, intermediate);
  add("up", hidden, intermediate);
  add("down", intermediate, hidden);
}

void name_fused_experts(HfNames& names, const blocks::FeedForward& e, const std::string& into,
                        const std::string& down) {
  const int64_t f = e.intermediate, hidden = names.model().hidden, parts = e.is_gated() ? 2 : 1;
  NamePiece up = {.ours = "w_up",
                  .our_shape = {e.experts, hidden, f},
                  .theirs = into,
                  .their_shape = {e.experts, parts * f, hidden},
                  .transposed = true,
                  .row_begin = (parts - 1) * f};
  if (e.is_gated()) {
    NamePiece gate = up;
    gate.ours = "w_gate";
    gate.row_begin = 0;
    names.piece(std::move(gate));
  }
  names.piece(std::move(up));
  names.piece({.ours = "w_down",
               .our_shape = {e.experts, f, hidden},
               .theirs = down,
               .their_shape = {e.experts, hidden, f},
               .transposed = true});
}

void name_single_experts(HfNames& names, const blocks::FeedForward& e, const ExpertNames& theirs) {
  const int64_t f = e.intermediate, hidden = names.model().hidden;
  const auto add = [&](int64_t expert, const char* ours, const std::string& their, int64_t in, int64_t out) {
    names.piece({.ours = ours,
                 .our_shape = {e.experts, in, out},
                 .theirs = fmt::format("experts.{}.{}.weight", expert, their),
                 .their_shape = {out, in},
                 .transposed = true,
                 .slice_begin = expert});
  };
  for (int64_t expert = 0; expert < e.experts; ++expert) {
    if (e.is_gated()) add(expert, "w_gate", theirs.gate, hidden, f);
    add(expert, "w_up", theirs.up, hidden, f);
    add(expert, "w_down", theirs.down, f, hidden);
  }
}

namespace {

// The norms of a block; an empty name is one that the class has not.
void name_norms(HfNames& names, const std::string& before, const std::string& after) {
  const ir::Shape shape = {names.model().hidden};
  const recipe::NormPlace place = names.model().norm_place;
  if (place != recipe::NormPlace::after) names.plain("norm.weight", before + ".weight", shape);
  if (place != recipe::NormPlace::before) names.plain("post_norm.weight", after + ".weight", shape);
}

void name_feed_forward(HfNames& names, const blocks::FeedForward& e, const FeedForwardNames& feed_forward) {
  if (feed_forward)
    feed_forward(names, e);
  else
    name_mlp(names, e, e.intermediate);
}

}  // namespace

NameMap name_two_block_layers(const recipe::Model& model, const LayerNames& layers,
                              const FeedForwardNames& feed_forward) {
  HfNames names(model);
  names.ends("model.embed_tokens.weight", layers.final_norm);
  const std::vector<char> letters = recipe::expand(model).letters;
  for (int64_t layer = 0; layer < model.depth / 2; ++layer) {
    const std::string theirs = fmt::format("model.layers.{}.", layer);
    const char mixer = letters[static_cast<size_t>(2 * layer)], second = letters[static_cast<size_t>(2 * layer + 1)];
    const std::string a = hf_block(2 * layer, mixer), e = hf_block(2 * layer + 1, second);
    names.at(a, theirs);
    name_norms(names, layers.mixer_norm, layers.mixer_post_norm);
    const blocks::Config config = recipe::config_of(model, mixer);
    if (const auto* own = config.get_if<blocks::Attention>()) {
      names.at(a, theirs + layers.attention);
      name_attention(names, *own);
    } else if (const auto* mamba = config.get_if<blocks::Mamba>()) {
      names.at(a, theirs + layers.mamba);
      name_mamba(names, *mamba);
    } else {
      names.at(a, theirs + layers.recurrent);
      name_recurrent(names, config);
    }
    names.at(e, theirs);
    name_norms(names, layers.feed_forward_norm, layers.feed_forward_post_norm);
    names.at(e, theirs + layers.feed_forward);
    name_feed_forward(names, recipe::config_of(model, second).as<blocks::FeedForward>(), feed_forward);
  }
  return names.done();
}

NameMap name_one_block_layers(const recipe::Model& model, const std::string& root,
                              const FeedForwardNames& feed_forward) {
  HfNames names(model);
  names.ends(root + "embeddings.weight", root + "norm_f.weight");
  const std::vector<char> letters = recipe::expand(model).letters;
  for (int64_t layer = 0; layer < model.depth; ++layer) {
    const char letter = letters[static_cast<size_t>(layer)];
    const std::string theirs = fmt::format("{}layers.{}.", root, layer);
    names.at(hf_block(layer, letter), theirs);
    names.plain("norm.weight", "norm.weight", {model.hidden});
    names.at(hf_block(layer, letter), theirs + "mixer.");
    const blocks::Config config = recipe::config_of(model, letter);
    if (const auto* a = config.get_if<blocks::Attention>()) name_attention(names, *a);
    if (const auto* m = config.get_if<blocks::Mamba>()) name_mamba(names, *m);
    if (const auto* e = config.get_if<blocks::FeedForward>()) name_feed_forward(names, *e, feed_forward);
  }
  return names.done();
}

HfNaming naming_of(std::string_view tensor_name) {
  const auto has = [tensor_name](std::string_view part) { return tensor_name.find(part) != std::string_view::npos; };
  constexpr std::string_view kExperts = ".experts.";
  const size_t experts = tensor_name.find(kExperts);
  const bool is_single = experts != std::string_view::npos && experts + kExperts.size() < tensor_name.size() &&
                         std::isdigit(static_cast<unsigned char>(tensor_name[experts + kExperts.size()])) != 0;
  const bool is_mixtral_or_granite = has(".block_sparse_moe.gate.") || has(".block_sparse_moe.input_linear.") ||
                                     has(".block_sparse_moe.output_linear.") || has(".block_sparse_moe.router.layer.");
  return is_single || is_mixtral_or_granite || tensor_name.starts_with("backbone.") ? HfNaming::on_disk
                                                                                    : HfNaming::in_memory;
}

}  // namespace megacpp::checkpoint
