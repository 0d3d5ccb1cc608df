// SPDX-License-Identifier: Apache-2.0
// The texts under hardware.limits and hardware.fail_allocation, read: what one chip may use, and where its allocation
// is to fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

/// "3=256MiB"
struct ChipLimit {
  int64_t chip = 0;
  int64_t bytes = 0;
};
std::optional<ChipLimit> parse_chip_limit(std::string_view text);

/// "chip 3 step 2", "chip 0 step load", "chip 0 step compile"
struct FailAllocation {
  enum class At { compile, load, step };
  int64_t chip = 0;
  At at = At::step;
  int64_t step = -1;  // from 0; -1 before step 0

  bool operator==(const FailAllocation&) const = default;
};
std::optional<FailAllocation> parse_fail_allocation(std::string_view text);

/// Of a validated recipe, in the order given.
std::vector<FailAllocation> fail_allocations(const Hardware& hardware);

/// Bytes that each of `chips` chips may use, 0 where nothing is said; empty when nothing is said of any. E1003 for a
/// chip that is not among them: only now it is known how many there are, since plans may fill larger hardware.
std::vector<int64_t> chip_limits(const Hardware& hardware, int64_t chips);

/// The chips of a layout, with a product that is too large to count as the largest number.
int64_t chips_of(const Layout& layout);

}  // namespace megacpp::recipe
