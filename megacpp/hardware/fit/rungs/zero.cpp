// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/rung.h"
#include "megacpp/program/plan/policy.h"

namespace megacpp::fit {
namespace {

std::vector<plan::Changes> higher_zero(const recipe::Recipe& recipe) {
  const int64_t zero = plan::zero_level(recipe.layout);
  if (zero >= 3) return {};
  return with_effect({{change_to("layout.zero", zero + 1)}}, recipe);
}

}  // namespace

Rung zero_rung() {
  return {.name = "zero",
          .does = "split more of the state over the copies of the model",
          .may_reduce = {ir::Role::weight, ir::Role::weight_copy, ir::Role::gradient, ir::Role::optimizer,
                         ir::Role::temporary, ir::Role::collective},
          .keys = {"layout.zero"},
          .changes = higher_zero};
}

}  // namespace megacpp::fit
