// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/run_request.h"

#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/chip_settings.h"

namespace megacpp::recipe {

RunRequest run_request(const Recipe& recipe) {
  RunRequest request{.xla = recipe.xla,
                     .hardware = recipe.hardware,
                     .chips = chips_of(recipe.layout),
                     .threads = recipe.train.threads,
                     .wait_limit = std::chrono::seconds(recipe.train.wait_limit)};
  if (recipe.model.depth == 0) return request;
  request.has_repeated_blocks = has_repeated_blocks(recipe.model);
  request.has_block_loops = has_block_loops(recipe);
  request.blocks_text = block_loops_text(recipe);
  return request;
}

}  // namespace megacpp::recipe
