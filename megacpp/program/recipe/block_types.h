// SPDX-License-Identifier: Apache-2.0
// The types of blocks a model has: each letter of its pattern with the family behind it and the settings its blocks
// read. Who asks a question about blocks asks it of these, never of a letter.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/blocks/block.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

struct BlockType {
  char letter = 0;
  const blocks::BlockDef* family = nullptr;
  blocks::Config config;                   // of the letter: its own settings, for the rest those of its family
  int64_t blocks = 0;                      // of the model
  std::vector<std::string> own_keys = {};  // that the letter itself gives: "heads"

  bool is_familys_own() const { return letter == family->letter; }
  /// The key that sets it for this letter: "model.attention.heads", or "model.letters.G.attention.heads" whether the
  /// recipe gives that or leaves it to the family, whose other letters its own key would change too.
  std::string path(std::string_view key) const;
  blocks::Traits traits() const { return family->traits(config); }
};

/// Those of the pattern within the depth: by family in the order of the table, a family's own letter before others.
std::vector<BlockType> block_types(const Model& model);

/// The family behind a letter that is a family's own or defined by the model.
const blocks::BlockDef& family_of(const Model& model, char letter);
/// Settings of blocks of that letter.
blocks::Config config_of(const Model& model, char letter);

/// Whether blocks route tokens to experts.
bool has_experts(const Model& model);
/// Of each type that routes, as often as there are types: 8, 4.
std::vector<int64_t> expert_counts(const Model& model);

}  // namespace megacpp::recipe
