// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/block_loops.h"

#include <vector>

#include <fmt/format.h>

#include "megacpp/program/recipe/pattern.h"
#include "megacpp/program/recipe/plugin_name.h"

namespace megacpp::recipe {

base::Repeat repeated_blocks(const Model& model) {
  const std::vector<char> letters = expand(model).letters;
  return base::best_repeat(std::vector<size_t>(letters.begin(), letters.end()));
}

bool has_repeated_blocks(const Model& model) { return repeated_blocks(model).count > 1; }

bool has_block_loops(const Recipe& recipe) {
  const bool wants = recipe.xla.loops == XlaLoops::automatic ? plugin_devices(recipe.xla.plugin) != PluginDevices::gpu
                                                             : recipe.xla.loops == XlaLoops::on;
  return wants && has_repeated_blocks(recipe.model);
}

std::string block_loops_text(const Recipe& recipe) {
  const int64_t blocks = recipe.model.depth;
  if (!has_block_loops(recipe)) return fmt::format("{} blocks unrolled", blocks);
  const base::Repeat repeat = repeated_blocks(recipe.model);
  return fmt::format("{} of {} blocks in loops of {}", repeat.period * repeat.count, blocks, repeat.count);
}

}  // namespace megacpp::recipe
