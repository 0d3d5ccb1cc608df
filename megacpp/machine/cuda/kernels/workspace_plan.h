// SPDX-License-Identifier: Apache-2.0
// Divides a kernel's workspace: each part begins at kAlignment. Offsets are in bytes.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernel.h"

namespace megacpp::runtime::cuda {

class WorkspacePlan {
 public:
  /// Books `bytes` and returns their offset.
  int64_t book(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace megacpp::runtime::cuda
