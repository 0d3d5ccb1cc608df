// SPDX-License-Identifier: Apache-2.0
// The request of a recipe to the backend that runs it: its own section, the chips, threads and waits. Backends know no
// more of a recipe, but for what they refuse of it and which of its keys they do not read (Backend::cannot_run,
// ignores).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

struct RunRequest {
  Xla xla = {};
  Hardware hardware = {};
  int64_t chips = 1;
  int64_t threads = 0;  // of this process; 0: all cores
  std::chrono::seconds wait_limit = std::chrono::seconds(600);

  // ---- The blocks of the model, for a compiler that has them in loops
  bool has_repeated_blocks = false;
  bool has_block_loops = false;  // those that repeat are one, as xla.loops has become
  std::string blocks_text = {};  // "12 of 13 blocks in loops of 3"
};

/// Of a recipe without a model too, as commands have that ask what is here.
RunRequest run_request(const Recipe& recipe);

}  // namespace megacpp::recipe
