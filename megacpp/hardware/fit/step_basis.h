// SPDX-License-Identifier: Apache-2.0
// What a predicted step is made of, in sentences: rates that were measured, and how far whole steps were from such
// predictions, or the roofline where nobody measured.
#pragma once

#include <string>

#include "megacpp/hardware/fit/step_time.h"
#include "megacpp/hardware/hw/chip.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::fit {

/// What times of steps, tokens a second and MFU on the chip stand for: "predicted by the rates that the file of h200
/// gives
/// (...)", "the roofline, ...". Where its file has no rate for products in the recipe's precision, whose is taken is
/// said; where it has no link to the host's memory and the recipe keeps state there, that no time has these copies.
std::string basis_of_times(const hw::Chip& chip, const recipe::Recipe& recipe);

/// "Expected between 430.00 ms and 520.00 ms (...); the roofline is 291.00 ms.": the range of one prediction.
std::string range_text(const StepTime& time, const hw::Chip& chip);

}  // namespace megacpp::fit
