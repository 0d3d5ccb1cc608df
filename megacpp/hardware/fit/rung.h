// SPDX-License-Identifier: Apache-2.0
// The record of a rung: what it may reduce, and the changes it offers to a recipe that does not fit. A rung knows
// nothing of limits; ladder.h estimates what it offers. Each is a file of rungs/ and a line of recipe/rung_list.inc.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/memory_tier.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::fit {

enum class Offers : uint8_t {
  steps,         // each saves more bytes than the one before, and is offered again to what it made
  alternatives,  // one of several layouts
};

struct Rung {
  std::string_view name;  // as ladder.rungs has it
  std::string_view does;  // "halve the device batch, double the micro-steps: the global batch stays"
  std::vector<ir::Role> may_reduce;
  std::vector<std::string_view> keys;  // that it changes
  Offers offers = Offers::steps;
  bool changes_experiment = false;     // its results cannot be compared with those requested
  std::optional<ir::Tier> needs = {};  // it means something only where devices have this memory beside their own
  /// Mildest first; empty: nothing is left to change. Gates may still refuse.
  std::function<std::vector<plan::Changes>(const recipe::Recipe&)> changes;

  bool reduces(ir::Role role) const;
  bool may_change(std::string_view key) const;
};

// What several rungs may reduce.

inline std::vector<ir::Role> roles_of_tokens() {
  return {ir::Role::activation, ir::Role::temporary, ir::Role::collective, ir::Role::batch};
}
inline std::vector<ir::Role> roles_between_passes() {
  return {ir::Role::activation, ir::Role::temporary, ir::Role::collective};
}

/// To a number.
inline plan::Change change_to(std::string key, int64_t value) { return {std::move(key), std::to_string(value)}; }

/// Those of one key each that change anything in this layout: one chip has no copies to split, and nothing to gather.
std::vector<plan::Changes> with_effect(std::vector<plan::Changes> offers, const recipe::Recipe& recipe);

}  // namespace megacpp::fit
