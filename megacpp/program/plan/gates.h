// SPDX-License-Identifier: Apache-2.0
// The gates between a recipe and a plan: degrees that multiply, dimensions that can be split, keys that agree. A
// refusal says what was got, what is wanted, and the nearest choices that every gate lets pass.
#pragma once

#include <optional>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/plan/next_step.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

/// The recipe is validated. Raises E1401 to E1407 on the first problem.
void check_layout(const recipe::Recipe& recipe, Adjustable adjustable);

/// What check_layout() would raise, without a next step; nothing: the layout is legal.
struct Refused {
  base::Code code;
  base::Problem problem;
};
std::optional<Refused> refusal(const recipe::Recipe& recipe);

/// The shortest sequence of at least `tokens` that the recipe's layout can split.
int64_t shortest_sequence(const recipe::Recipe& recipe, int64_t tokens);

/// What the gates refuse: the code of each kind once, sorted.
std::vector<base::Code> gate_codes();

}  // namespace megacpp::plan
