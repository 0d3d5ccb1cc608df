// SPDX-License-Identifier: Apache-2.0
// Shorter sequences by a third: no launch needs it; it has what a rung must have.
#include "megacpp/hardware/fit/rung.h"

namespace megacpp::fit {
namespace {

std::vector<plan::Changes> two_thirds(const recipe::Recipe& recipe) {
  if (recipe.train.sequence % 3 != 0) return {};
  return {{change_to("train.sequence", recipe.train.sequence / 3 * 2)}};
}

}  // namespace

Rung steps_rung() {
  return {.name = "steps",
          .does = "two thirds of the sequence",
          .may_reduce = roles_of_tokens(),
          .keys = {"train.sequence"},
          .changes_experiment = true,
          .changes = two_thirds};
}

}  // namespace megacpp::fit
