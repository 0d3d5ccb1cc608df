// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/rung.h"

namespace megacpp::fit {
namespace {

std::vector<plan::Changes> shorter_sequence(const recipe::Recipe& recipe) {
  if (recipe.train.sequence % 2 != 0) return {};
  return {{change_to("train.sequence", recipe.train.sequence / 2)}};
}

}  // namespace

Rung sequence_rung() {
  return {.name = "sequence",
          .does = "halve the sequence: another experiment than requested",
          .may_reduce = roles_of_tokens(),
          .keys = {"train.sequence"},
          .changes_experiment = true,
          .changes = shorter_sequence};
}

}  // namespace megacpp::fit
