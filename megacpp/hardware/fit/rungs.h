// SPDX-License-Identifier: Apache-2.0
// The rungs of the ladder as a table, and what recipes let them do.
#pragma once

#include <span>
#include <vector>

#include "megacpp/hardware/fit/rung.h"

namespace megacpp::fit {

/// In the order of recipe/rung_list.inc.
std::span<const Rung> all_rungs();
/// Of a validated recipe's ladder.rungs, in its order.
std::vector<const Rung*> rungs_of(const recipe::Ladder& ladder);

/// Whether rungs of the policy may make these changes, or planning below them: levels of recompute that are left to it.
/// A policy without rungs answers no failure, so it offers no change at all.
bool offers(const recipe::Recipe& requested, const plan::Changes& changes);
/// Whether results with these changes cannot be compared with those requested.
bool changes_experiment(const plan::Changes& changes);

}  // namespace megacpp::fit
