// SPDX-License-Identifier: Apache-2.0
// train.recompute: auto. A letter left to planning takes `selective` where that was measured to cost no time:
// recomputing elementwise work can be cheaper than writing its results to memory and reading them back. Anything beyond
// that is taken only as far as a plan needs it to fit, the least time per byte first, by the step-time model for one
// block of the letter compiled alone. That model cannot say what is free: it knows nothing of what a hardware's
// compiler fuses. So nothing is claimed for chips and precisions whose file has no such measurement.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::fit {

struct Assumptions;

/// Those that planning chooses of, from the least that is recomputed.
inline constexpr std::array<recipe::RecomputeLevel, 3> kRecomputeLevels = {
    recipe::RecomputeLevel::none, recipe::RecomputeLevel::selective, recipe::RecomputeLevel::full};

/// What auto became for one letter.
struct RecomputeChoice {
  char letter;
  recipe::RecomputeLevel level = {};  // one of kRecomputeLevels
  std::string why;
  bool below_ceiling = false;  // taken because a plan that fits by its limits ran out of memory
};

/// What a plan must meet beside its own limits: after an allocation failed, less than what was required then.
struct Ceiling {
  int64_t bytes = INT64_MAX;  // the worst chip must need less
};

class AutoRecompute {
 public:
  /// Starts from the levels that cost nothing. `assumptions` must outlive it.
  AutoRecompute(const recipe::Recipe& recipe, const Assumptions& assumptions);

  /// With the levels as they are now; nothing is left at auto.
  const recipe::Recipe& recipe() const { return recipe_; }
  /// Of the letters that were left to planning, in the order of recompute_letters().
  std::vector<RecomputeChoice> choices() const;

  /// Whether a level can be raised, to `level` at most.
  bool can_raise(recipe::RecomputeLevel level = kRecomputeLevels.back()) const;
  /// Why: with less the plan exceeds a limit, or only a compiler can tell whether it does, or it exceeds a ceiling.
  enum class Need : uint8_t { limit, unsure, ceiling };
  /// The one that costs the least time per byte.
  void raise(Need need);
  /// Bytes that all blocks keep from forward to backward with the levels as they are now, by those of one block alone:
  /// for saying which of several levels to look at first.
  double kept_bytes();
  /// All letters below `level` to it.
  void raise_all(recipe::RecomputeLevel level, Need need);

 private:
  /// Of one block, by level.
  struct Cost {
    std::array<double, 3> seconds, bytes;
  };
  struct Letter {
    char name;
    size_t level = 0;
    std::string why;
    bool below_ceiling = false;
    std::optional<Cost> cost;  // once it was needed
  };

  const Cost& cost_of(Letter& letter);
  void take_what_is_free(Letter& letter);
  void set(Letter& letter, size_t level, std::string why);

  recipe::Recipe recipe_;
  const Assumptions& assumptions_;
  std::vector<Letter> letters_;
};

/// Letters alike are named together: "E selective (...); A, M none (...)"; empty where nothing was left to planning.
std::string to_text(std::span<const RecomputeChoice> choices);

}  // namespace megacpp::fit
