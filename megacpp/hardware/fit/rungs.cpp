// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/rungs.h"

#include <algorithm>
#include <string_view>

#include "megacpp/core/base/error.h"
#include "megacpp/program/plan/unused_layout_keys.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {

std::vector<plan::Changes> with_effect(std::vector<plan::Changes> offers, const recipe::Recipe& recipe) {
  std::erase_if(offers, [&](const plan::Changes& offer) {
    return std::ranges::any_of(plan::unused_layout_keys(), [&](const recipe::IgnoredKey& ignored) {
      return ignored.key == offer.front().key && (!ignored.applies || ignored.applies(recipe));
    });
  });
  return offers;
}

bool Rung::reduces(ir::Role role) const { return std::ranges::find(may_reduce, role) != may_reduce.end(); }

bool Rung::may_change(std::string_view key) const {
  return std::ranges::any_of(
      keys, [key](std::string_view own) { return own.ends_with('.') ? key.starts_with(own) : key == own; });
}

std::vector<const Rung*> rungs_of(const recipe::Ladder& ladder) {
  std::vector<const Rung*> rungs;
  for (const std::string& name : ladder.rungs) {
    const auto at = std::ranges::find(all_rungs(), name, &Rung::name);
    MEGACPP_CHECK(at != all_rungs().end()) << "ladder.rungs was not validated: " << name;
    rungs.push_back(&*at);
  }
  return rungs;
}

bool offers(const recipe::Recipe& requested, const plan::Changes& changes) {
  const std::vector<const Rung*> rungs = rungs_of(requested.ladder);
  if (rungs.empty()) return changes.empty();
  const auto is_left_to_planning = [&](const std::string& key) {
    if (key == recipe::kLoopsKey) return requested.xla.loops == recipe::XlaLoops::automatic;
    return std::ranges::any_of(recipe::recompute_letters(requested.model), [&](char letter) {
      return key == recipe::recompute_key(letter) &&
             recipe::recompute_level(requested, letter) == recipe::RecomputeLevel::automatic;
    });
  };
  return std::ranges::all_of(changes, [&](const plan::Change& change) {
    return is_left_to_planning(change.key) ||
           std::ranges::any_of(rungs, [&](const Rung* rung) { return rung->may_change(change.key); });
  });
}

bool changes_experiment(const plan::Changes& changes) {
  return std::ranges::any_of(changes, [](const plan::Change& change) {
    return std::ranges::any_of(
        all_rungs(), [&](const Rung& rung) { return rung.changes_experiment && rung.may_change(change.key); });
  });
}

}  // namespace megacpp::fit
