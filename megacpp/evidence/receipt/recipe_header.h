// SPDX-License-Identifier: Apache-2.0
// What a recipe alone says of a receipt's header: model, batch and how the program is made, without a plan.
#pragma once

#include <string>

#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::receipt {

/// Hardware, versions and what a plan decides are absent.
Header recipe_header(const recipe::Recipe& recipe);

/// "A=none M=auto:full": the levels of a recipe, and which of them were left to planning in the one that was requested.
std::string recompute_text(const recipe::Recipe& recipe, const recipe::Recipe& requested);

}  // namespace megacpp::receipt
