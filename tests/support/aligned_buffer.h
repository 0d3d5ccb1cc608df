// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace megacpp::testing_support {

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
/// Bytes as kernels want them: aligned to a cache line.
using AlignedBuffer = std::unique_ptr<std::byte, FreeBytes>;

inline AlignedBuffer allocate_aligned(int64_t bytes) {
  constexpr size_t kLine = 64;
  const size_t size = (static_cast<size_t>(bytes) / kLine + 1) * kLine;
  return AlignedBuffer(static_cast<std::byte*>(std::aligned_alloc(kLine, size)));
}

}  // namespace megacpp::testing_support
