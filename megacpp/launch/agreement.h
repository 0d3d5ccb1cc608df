// SPDX-License-Identifier: Apache-2.0
// What the processes of a launch decide together, through a World: with how much free memory to plan, whether to start
// where the catalog says, whether memory ran out on any of them, and which rung follows. None decides from what it
// alone sees. All processes pass here in the same order; one that ends with an error aborts, so that none waits for it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "megacpp/collectives/transport.h"
#include "megacpp/plan/next_step.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/runtime/cpu/cpu_backend.h"

namespace megacpp::launch {

/// How this process works with the other processes of the run.
struct ProcessOptions {
  collectives::Transport transport = collectives::inproc_transport();
  std::function<int64_t()> free_memory = runtime::cpu::available_memory_bytes;  // of this process's machine, in bytes
};

class Agreement {
 public:
  /// E3103 where processes were given different recipes.
  Agreement(const recipe::Recipe& requested, ProcessOptions options);

  const collectives::Transport& transport() const { return options_.transport; }

  /// The least of all processes.
  int64_t free_memory();
  int64_t least(std::string_view subject, int64_t value) { return world_->agree_min(subject, value); }
  /// Whether it is so on every process.
  bool everywhere(std::string_view subject, bool value) { return !world_->agree_any(subject, !value); }
  /// Whether memory ran out on any process. Each asks once an attempt: when its step 0 is over, when its memory ran
  /// out, or when it noticed that a chip of another process failed.
  bool ran_out(bool here) { return world_->agree_any("whether memory ran out in the window", here); }
  /// E3103 where processes arrived at different rungs.
  void same_rung(size_t rung, const plan::Changes& changes);

  void abort(const std::string& reason) { world_->abort(world_->local_chips().front(), reason); }
  /// Aborts when `decide` throws.
  template <typename Decide>
  auto together(const Decide& decide) {
    try {
      return decide();
    } catch (const std::exception& error) {
      abort(error.what());
      throw;
    }
  }

 private:
  ProcessOptions options_;
  std::unique_ptr<collectives::World> world_;  // to agree in; a run makes its own
};

}  // namespace megacpp::launch
