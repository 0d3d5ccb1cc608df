// SPDX-License-Identifier: Apache-2.0
// What the whole test program takes from the heap, while one is looking: the most bytes at once and the largest piece.
// Arenas are mapped, not taken from the heap, and do not count.
#pragma once

#include <cstdint>

namespace megacpp::testing_support {

/// From its construction on; one at a time.
class HeapWatch {
 public:
  HeapWatch();
  int64_t peak_bytes() const;     // beyond what was held at the beginning
  int64_t held_bytes() const;     // the same, now
  int64_t largest_bytes() const;  // of a single allocation
};

}  // namespace megacpp::testing_support
