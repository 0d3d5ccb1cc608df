// SPDX-License-Identifier: Apache-2.0
// The rungs of the ladder as a table: what each may reduce, and the changes it offers to a recipe that does not fit. A
// rung knows nothing of limits; ladder.h estimates what it offers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/ir/graph.h"
#include "megacpp/plan/next_step.h"
#include "megacpp/recipe/recipe.h"

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
  bool changes_experiment = false;  // its results cannot be compared with those requested
  bool needs_host_memory = false;   // it means something only where devices have a host's memory beside them
  /// Mildest first; empty: nothing is left to change. Gates may still refuse.
  std::function<std::vector<plan::Changes>(const recipe::Recipe&)> changes;

  bool reduces(ir::Role role) const;
  bool may_change(std::string_view key) const;
};

std::span<const Rung> all_rungs();
/// Of a validated recipe's ladder.rungs, in its order.
std::vector<const Rung*> rungs_of(const recipe::Ladder& ladder);

/// Whether rungs of the policy may make these changes, or planning below them: levels of recompute that are left to it.
/// A policy without rungs answers no failure, so it offers no change at all.
bool offers(const recipe::Recipe& requested, const plan::Changes& changes);
/// Whether results with these changes cannot be compared with those requested.
bool changes_experiment(const plan::Changes& changes);

}  // namespace megacpp::fit
