// SPDX-License-Identifier: Apache-2.0
// train.recompute family by family: the one list of its keys, and which of them count for a model.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "megacpp/recipe/recipe.h"

namespace megacpp::recipe {

struct RecomputeKey {
  char family;
  std::string Train::*level;  // "none", "selective" or "full"

  std::string name() const;  // "train.recompute.A"
};

inline constexpr std::array<RecomputeKey, 4> kRecomputeKeys = {
    {{'A', &Train::recompute_A}, {'M', &Train::recompute_M}, {'E', &Train::recompute_E}, {'R', &Train::recompute_R}}};

/// Those of families that the model has, in the same order; the others change nothing.
std::vector<RecomputeKey> recompute_keys_of(const Model& model);

}  // namespace megacpp::recipe
