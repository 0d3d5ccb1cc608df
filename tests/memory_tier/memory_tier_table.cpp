// SPDX-License-Identifier: Apache-2.0
// The table of memory tiers, built from the list of this test instead of the shipped one.
#define MEGACPP_MEMORY_TIER_LIST "tests/memory_tier/memory_tier_list.inc"
#include "megacpp/core/ir/memory_tier_table.cpp"
