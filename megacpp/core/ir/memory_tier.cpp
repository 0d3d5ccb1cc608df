// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/memory_tier.h"

#include <algorithm>

namespace megacpp::ir {

std::optional<Tier> parse_tier(std::string_view name) {
  const auto at = std::ranges::find(all_tiers(), name, &MemoryTier::name);
  if (at == all_tiers().end()) return std::nullopt;
  return static_cast<Tier>(at - all_tiers().begin());
}

}  // namespace megacpp::ir
