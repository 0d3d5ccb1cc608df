// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/recompute.h"

#include "megacpp/recipe/pattern.h"

namespace megacpp::recipe {

std::string RecomputeKey::name() const { return std::string("train.recompute.") + family; }

std::vector<RecomputeKey> recompute_keys_of(const Model& model) {
  const ExpandedPattern pattern = expand(model.pattern, model.depth);
  std::vector<RecomputeKey> keys;
  for (const RecomputeKey& key : kRecomputeKeys)
    if (has_family(pattern, key.family)) keys.push_back(key);
  return keys;
}

}  // namespace megacpp::recipe
