// SPDX-License-Identifier: Apache-2.0
// The table of memory tiers, and nothing else: a test may be built with a list of its own, which begins as this one.
#include "megacpp/core/ir/memory_tier.h"

#ifndef MEGACPP_MEMORY_TIER_LIST
#define MEGACPP_MEMORY_TIER_LIST "megacpp/core/ir/memory_tier_list.inc"
#endif

namespace megacpp::ir {

#define MEGACPP_MEMORY_TIER(name) MemoryTier name##_tier();
#include MEGACPP_MEMORY_TIER_LIST
#undef MEGACPP_MEMORY_TIER

std::span<const MemoryTier> all_tiers() {
  static const MemoryTier table[] = {
#define MEGACPP_MEMORY_TIER(name) name##_tier(),
#include MEGACPP_MEMORY_TIER_LIST
#undef MEGACPP_MEMORY_TIER
  };
  return table;
}

}  // namespace megacpp::ir
