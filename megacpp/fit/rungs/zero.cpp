// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/rung.h"
#include "megacpp/plan/policy.h"

namespace megacpp::fit {
namespace {

std::vector<plan::Changes> higher_zero(const recipe::Recipe& recipe) {
  recipe::Layout layout = recipe.layout;
  plan::apply_policy(layout);
  if (layout.zero >= 3) return {};
  return with_effect({{change_to("layout.zero", layout.zero + 1)}}, recipe);
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
