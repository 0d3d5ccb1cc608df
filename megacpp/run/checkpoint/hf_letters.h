// SPDX-License-Identifier: Apache-2.0
// Layers of several kinds in a Hugging Face config, and the letters they are in ours: the first kind of a family is the
// family's own letter, another one a letter of the model's own.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/schema/limits.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/hf_codec.h"

namespace megacpp::checkpoint {

/// More layers than a model may have are not looked at one by one.
inline constexpr auto kMostLayers = static_cast<int64_t>(schema::kMaxDepth);
inline constexpr char kSlidingLetter = 'L';  // of attention to a window beside attention to all
inline constexpr char kDenseLetter = 'D';    // of dense feed-forward beside experts

/// The blocks of a model, one letter each, as the shortest pattern that tiles them.
void set_blocks(recipe::Model& model, const std::string& blocks);

/// Defines a letter by what differs from the settings of its family, which are known.
void add_letter(recipe::Model& model, char letter, char family, const blocks::Config& own);

/// One word for each of `layers` layers, out of `allowed`.
std::vector<std::string> layer_words(const HfFields& fields, std::string_view field, int64_t layers,
                                     std::initializer_list<std::string_view> allowed);

/// The settings of the first type of blocks that `is` says yes to, or else of the first one of the family. Of a model
/// that is still to be read those of the family.
template <typename Settings>
Settings first_of(const recipe::Model& model, const std::function<bool(const Settings&)>& is) {
  if (model.pattern.empty()) return model.config<Settings>();
  const Settings* found = nullptr;
  const std::vector<recipe::BlockType> types = recipe::block_types(model);
  for (const recipe::BlockType& type : types)
    if (const auto* own = type.config.get_if<Settings>(); own != nullptr) {
      if (is(*own)) return *own;
      if (found == nullptr) found = own;
    }
  return found != nullptr ? *found : Settings{};
}

/// Attention of a model whose layers see all tokens or a window of them.
struct TwoAttentions {
  blocks::Attention full, sliding;
};
/// Of a model that is written: of each kind the first, and the other where there is none.
TwoAttentions two_attentions(const recipe::Model& model);

/// Qwen's window, which is there only where "use_sliding_window" says so: into `sliding`, which else is as `full`. The
/// first layer that has it where no list says which.
int64_t window_when_used(HfCodec& io, const blocks::Attention& full, blocks::Attention& sliding);

/// Layers of an attention block and a block of family E, whose kinds "layer_types" says; without it the layers slide
/// that `slides` says.
void sliding_layers(HfCodec& io, recipe::Model& model, const TwoAttentions& attentions,
                    const std::function<bool(int64_t layer)>& slides);

}  // namespace megacpp::checkpoint
