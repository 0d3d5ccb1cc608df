// SPDX-License-Identifier: Apache-2.0
// Blocks that repeat are planned once: in place of a deep model three shallow ones are compiled, which are equal to it
// but for the number of blocks that repeat, and what grows with the depth is extended along its line. The third tells
// whether it is one. Only for plans: what runs is always compiled whole.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::fit {

/// Models of so many blocks and fewer are compiled whole in plans too: more than any published model has.
inline constexpr int64_t kMostPlannedWhole = 512;

/// Depths that differ by whole periods of the pattern, as often in every part of a pipeline.
struct ShallowDepths {
  std::array<int64_t, 3> depths = {};  // at equal distances
  int64_t depth = 0;                   // of the model
  int64_t period = 1;                  // blocks after which letters repeat
  int64_t parts = 1;                   // of a pipeline: stages times chunks

  int64_t distance() const { return depths[1] - depths[0]; }
  /// Blocks that are compiled in none of them, in each part.
  int64_t left_out() const { return (depth - depths[2]) / parts; }

  /// A number of the model whose values at the depths are on a line.
  int64_t extended(int64_t middle, int64_t last) const;
  double extended(double middle, double last) const;
};

/// How far a number of the deepest shallow plan may be from the line of the other two, as a part of it, for the line to
/// be taken; state must be on it exactly.
inline constexpr double kMostOffLine = 1e-3;
/// Whether the last of three is as near to the line of the others.
bool is_on_line(const ShallowDepths& depths, const std::array<double, 3>& numbers);
bool is_on_line(const ShallowDepths& depths, const std::array<int64_t, 3>& numbers);

/// Nothing where the model is no deeper than `most_whole`, where something tells blocks that repeat apart (a pattern of
/// parameter names that has a number, cuts of the pipeline in model.pattern), or where the shallow ones together have
/// as many blocks as it.
std::optional<ShallowDepths> shallow_depths(const plan::Plan& plan, int64_t most_whole = kMostPlannedWhole);
/// Twice as deep and as far apart; nothing as above.
std::optional<ShallowDepths> deeper(const ShallowDepths& depths);

/// "blocks 25 to 99,988 repeat: planned from depths 24, 36 and 48"
std::string to_text(const ShallowDepths& depths);

struct ShallowPlan {
  plan::PlannedRecipe planned;
  compile::Compiled compiled;
};

struct ShallowPlans {
  ShallowDepths depths;
  std::vector<ShallowPlan> plans;  // three, as the depths

  /// Of the model, by a number of each of them.
  template <typename Number>
  auto extended(const Number& number) const {
    return depths.extended(number(plans[1]), number(plans[2]));
  }
};

ShallowPlans compile_shallow(const recipe::Recipe& recipe, const ShallowDepths& depths, const schedule::Target& target,
                             const std::function<void(std::string_view)>& after_pass = {});

}  // namespace megacpp::fit
