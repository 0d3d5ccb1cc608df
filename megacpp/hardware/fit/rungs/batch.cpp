// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/rung.h"

namespace megacpp::fit {
namespace {

std::vector<plan::Changes> smaller_batch(const recipe::Recipe& recipe) {
  if (recipe.train.batch % 2 != 0) return {};
  return {
      {change_to("train.batch", recipe.train.batch / 2), change_to("train.micro_steps", recipe.train.micro_steps * 2)}};
}

}  // namespace

Rung batch_rung() {
  return {.name = "batch",
          .does = "halve the device batch, double the micro-steps: the global batch stays",
          .may_reduce = roles_of_tokens(),
          .keys = {"train.batch", "train.micro_steps"},
          .changes = smaller_batch};
}

}  // namespace megacpp::fit
