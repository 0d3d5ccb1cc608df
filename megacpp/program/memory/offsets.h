// SPDX-License-Identifier: Apache-2.0
// Places buffers with lifetimes in one address range so that no two that live at once overlap. Sweeps time once, best
// fit in the free gaps, n log n; several policies are tried and the smallest total kept. Deterministic.
#pragma once

#include <cstdint>
#include <vector>

namespace megacpp::memory {

inline int64_t aligned_bytes(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

struct Interval {
  int64_t bytes;   // already a multiple of the alignment
  uint32_t first;  // inclusive
  uint32_t last;   // inclusive
};

struct Placement {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;        // end of the highest buffer
  int64_t lower_bound = 0;  // most bytes alive at once: no placement is smaller
};

Placement place(const std::vector<Interval>& intervals);

struct Busiest {
  uint32_t time = 0;  // the first at which most bytes are alive
  int64_t bytes = 0;  // then
};
Busiest busiest(const std::vector<Interval>& intervals);

}  // namespace megacpp::memory
