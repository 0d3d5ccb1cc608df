// SPDX-License-Identifier: Apache-2.0
// What classes of Hugging Face models share of the names of their tensors. A class puts its NameMap together from these
// and from a model's sizes alone. Their linear layers are [out, in], ours [in, out].
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/blocks/mamba.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/name_map.h"

namespace megacpp::checkpoint {

/// Some classes are spelled differently in published files than by the library that loads them: experts one by one,
/// Granite's by other names, NemotronH under backbone. Other classes have one spelling.
enum class HfNaming { in_memory, on_disk };

/// The spelling that has a tensor of this name; in_memory when the name decides nothing.
HfNaming naming_of(std::string_view tensor_name);

/// Collects pieces under a prefix on each side.
class HfNames {
 public:
  explicit HfNames(const recipe::Model& model) : model_(model) {}

  void at(std::string ours, std::string theirs);

  /// Same elements in the same order.
  void plain(const std::string& ours, const std::string& theirs, ir::Shape our_shape, ir::Shape their_shape);
  void plain(const std::string& ours, const std::string& theirs, const ir::Shape& shape);
  /// Our [in, out] from their [out, in].
  void linear(const std::string& ours, const std::string& theirs, int64_t in, int64_t out);
  void piece(NamePiece piece);
  /// Embedding, final norm and head, around the blocks.
  void ends(const std::string& embedding, const std::string& final_norm);

  const recipe::Model& model() const { return model_; }
  NameMap done() { return std::move(map_); }

 private:
  const recipe::Model& model_;
  NameMap map_;
  std::string ours_;
  std::string theirs_;
};

/// "block03.E."
std::string hf_block(int64_t index, char letter);

// Each names the tensors of one module, at which `names` stands.
void name_attention(HfNames& names, const blocks::Attention& a);
void name_mamba(HfNames& names, const blocks::Mamba& m);
/// The R mixer: its letters are those of `linear_x`, `conv_1d`, `rg_lru`.
void name_recurrent(HfNames& names, const blocks::Config& config);
/// A dense feed-forward of a width, under prefixes of ours and theirs ("shared.").
void name_mlp(HfNames& names, const blocks::FeedForward& e, int64_t intermediate, const std::string& ours = "",
              const std::string& theirs = "");
/// Experts fused as [E, 2f, h] (gate rows, then up rows), or [E, f, h] without gates, and [E, h, f].
void name_fused_experts(HfNames& names, const blocks::FeedForward& e, const std::string& into, const std::string& down);
/// Experts one by one, by the names of their gate, up and down projections.
struct ExpertNames {
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";
};
void name_single_experts(HfNames& names, const blocks::FeedForward& e, const ExpertNames& theirs = {});

/// Layers of a mixer and a feed-forward each.
struct LayerNames {
  std::string final_norm = "model.norm.weight";
  std::string mixer_norm = "input_layernorm", mixer_post_norm = "";
  std::string feed_forward_norm = "post_attention_layernorm", feed_forward_post_norm = "";
  std::string attention = "self_attn.", mamba = "mamba.", recurrent = "temporal_block.";
  std::string feed_forward = "mlp.";
};
using FeedForwardNames = std::function<void(HfNames& names, const blocks::FeedForward& e)>;

/// `feed_forward` names a block of family E; without it every one is dense.
NameMap name_two_block_layers(const recipe::Model& model, const LayerNames& layers,
                              const FeedForwardNames& feed_forward = {});
/// Layers of one block each: a norm and a mixer, under `root`.
NameMap name_one_block_layers(const recipe::Model& model, const std::string& root,
                              const FeedForwardNames& feed_forward = {});

}  // namespace megacpp::checkpoint
