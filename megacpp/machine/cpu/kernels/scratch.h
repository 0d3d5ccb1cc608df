// SPDX-License-Identifier: Apache-2.0
// Divides a kernel's workspace while it is prepared: each part is a whole number of cache lines, so parts of
// different workers never share one. Offsets are in floats from the start of the part's owner.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cpu {

class ScratchPlan {
 public:
  /// Books `floats` and returns their offset.
  int64_t book(int64_t floats) {
    const int64_t offset = floats_;
    floats_ += (floats + kLine - 1) / kLine * kLine;
    return offset;
  }
  int64_t floats() const { return floats_; }
  int64_t bytes() const { return floats_ * static_cast<int64_t>(sizeof(float)); }

 private:
  static constexpr int64_t kLine = 16;  // floats in 64 bytes
  int64_t floats_ = 0;
};

}  // namespace megacpp::runtime::cpu
