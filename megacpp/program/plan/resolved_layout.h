// SPDX-License-Identifier: Apache-2.0
// The layout of a recipe with nothing left open: its policy applied, degrees multiplied, defaults filled in, and flags
// that have no effect switched off. A recipe's own layout is another type, so that nobody takes what was asked for what
// it became.
#pragma once

#include <cstdint>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

class ResolvedLayout {
 public:
  /// Of one chip.
  ResolvedLayout();
  ResolvedLayout(const recipe::Model& model, const recipe::Layout& requested);

  int64_t zero() const { return keys_.zero.given; }
  const recipe::Layout* operator->() const { return &keys_; }
  /// As a recipe would ask for exactly this.
  const recipe::Layout& keys() const { return keys_; }

 private:
  recipe::Layout keys_;
};

}  // namespace megacpp::plan
