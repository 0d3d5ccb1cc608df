// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "megacpp/hardware/fit/rung.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

// Letter by letter, first what costs little time, then everything. Letters whose blocks say that selective recompute is
// cheap come before the others.
std::vector<plan::Changes> more_recompute(const recipe::Recipe& recipe) {
  std::vector<recipe::BlockType> types = recipe::block_types(recipe.model);
  std::ranges::stable_sort(types, std::greater<>(),
                           [](const recipe::BlockType& type) { return type.traits().selective_is_cheap; });
  std::vector<plan::Changes> offers;
  using recipe::RecomputeLevel;
  for (const auto& [from, to] : {std::pair(RecomputeLevel::none, RecomputeLevel::selective),
                                 std::pair(RecomputeLevel::selective, RecomputeLevel::full)})
    for (const recipe::BlockType& type : types)
      if (recipe::recompute_level(recipe, type.letter) == from)
        offers.push_back({{recipe::recompute_key(type.letter), std::string(base::text_of(to))}});
  return offers;
}

}  // namespace

Rung recompute_rung() {
  return {.name = "recompute",
          .does = "compute activations again, letter by letter",
          .may_reduce = roles_between_passes(),
          .keys = {"train.recompute."},
          .changes = more_recompute};
}

}  // namespace megacpp::fit
