// SPDX-License-Identifier: Apache-2.0
// What would make a predicted step shorter: one sentence for its largest part, naming recipe keys.
#pragma once

#include <string>

#include "megacpp/hardware/fit/step_time.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::fit {

std::string speed_advice(const StepTime& time, const plan::Plan& plan, const recipe::Train& train);

}  // namespace megacpp::fit
