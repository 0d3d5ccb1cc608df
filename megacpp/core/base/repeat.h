// SPDX-License-Identifier: Apache-2.0
// The repeating stretch of a sequence: AEME AEME AEM repeats a period of four two times.
#pragma once

#include <cstddef>
#include <span>

namespace megacpp::base {

/// Entries [first, first + period x count) are `count` times the same `period`; a count below 2 is no repeat.
struct Repeat {
  size_t first = 0, period = 0, count = 0;

  size_t last() const { return first + period * count; }
  bool covers(size_t at) const { return count > 1 && at >= first && at < last(); }
};

/// The repeat that saves the most entries, of those the one with the shortest period.
Repeat best_repeat(std::span<const size_t> kinds);

}  // namespace megacpp::base
