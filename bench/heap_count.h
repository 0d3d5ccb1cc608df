// SPDX-License-Identifier: Apache-2.0
// Counts the heap of a program that is linked with heap_count.cpp: its operators new and delete replace the usual ones.
#pragma once

#include <cstdint>

namespace megacpp::bench {

class HeapCount {
 public:
  /// Counts from here; one at a time.
  HeapCount();

  /// Most bytes held at once since then, beyond those held at the start.
  int64_t peak_bytes() const;

 private:
  int64_t before_;
};

}  // namespace megacpp::bench
