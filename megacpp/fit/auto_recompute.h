// SPDX-License-Identifier: Apache-2.0
// train.recompute: auto. A family left to planning takes `selective` where that is known to cost no time: recomputing
// elementwise work can be cheaper than writing its results to memory and reading them back. Anything beyond that is
// taken only as far as a plan needs it to fit, the least time per byte first, by the step-time model for one block of
// the family compiled alone. That model cannot say what is free: it knows nothing of what a hardware's compiler fuses.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/recipe/recipe.h"

namespace megacpp::fit {

struct Assumptions;

inline constexpr std::array<const char*, 3> kRecomputeLevels = {"none", "selective", "full"};

/// What auto became for one family.
struct RecomputeChoice {
  char letter;
  std::string level;  // one of kRecomputeLevels
  std::string why;
};

class AutoRecompute {
 public:
  /// Starts from the levels that cost nothing. `assumptions` must outlive it.
  AutoRecompute(const recipe::Recipe& recipe, const Assumptions& assumptions);

  /// With the levels as they are now; nothing is left at auto.
  const recipe::Recipe& recipe() const { return recipe_; }
  /// Of the families that were left to planning, in the order of the recipe's keys.
  std::vector<RecomputeChoice> choices() const;

  /// Whether a level can be raised.
  bool can_raise() const;
  /// The one that costs the least time per byte.
  void raise();
  /// All families to full.
  void raise_all();

 private:
  /// Of one block, by level.
  struct Cost {
    std::array<double, 3> seconds, bytes;
  };
  struct Family {
    char letter;
    size_t level = 0;
    std::string why;
    std::optional<Cost> cost;  // once it was asked for
  };

  const Cost& cost_of(Family& family);
  void take_what_is_free(Family& family);
  void set(Family& family, size_t level, std::string why);

  recipe::Recipe recipe_;
  const Assumptions& assumptions_;
  std::vector<Family> families_;
};

/// Families alike are named together: "E selective (...); A, M none (...)"; empty where nothing was left
/// to planning.
std::string to_text(std::span<const RecomputeChoice> choices);

}  // namespace megacpp::fit
