// SPDX-License-Identifier: Apache-2.0
// What a recipe alone says of a receipt's header: model, batch and how the program is made, without a plan.
#pragma once

#include "megacpp/receipt/receipt.h"
#include "megacpp/recipe/recipe.h"

namespace megacpp::receipt {

/// Hardware, versions and what a plan decides are absent.
Header recipe_header(const recipe::Recipe& recipe);

}  // namespace megacpp::receipt
