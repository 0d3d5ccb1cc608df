// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/plugins/tpu_layout.h"

#include <algorithm>
#include <bit>

namespace megacpp::runtime::plugins {
namespace {

constexpr int64_t kLanes = 128;
constexpr int64_t kSublanes = 8;
constexpr int64_t kLargestRow = 1024;  // elements of a tile of a vector

int64_t rounded_up(int64_t size, int64_t tile) { return (size + tile - 1) / tile * tile; }

int64_t next_power_of_two(int64_t size) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))));
}

// Small elements are packed into words of 4 bytes along the second-minor dimension. A few rows take a flatter tile.
int64_t padded_rows(int64_t rows, int64_t pack) {
  return rows > kSublanes / 2 ? rounded_up(rows, kSublanes) : std::max(next_power_of_two(rows), pack);
}

}  // namespace

int64_t tpu_argument_bytes(const ir::Shape& shape, int64_t element_bytes) {
  const int64_t pack = 4 / element_bytes;
  const int64_t elements = ir::num_elements(shape);
  if (elements == 0) return 0;
  if (shape.size() < 2) {
    const int64_t tile = std::clamp(next_power_of_two(elements), kLanes * pack, kLargestRow);
    return rounded_up(elements, tile) * element_bytes;
  }
  int64_t least = 0;
  for (size_t minor = 0; minor < shape.size(); ++minor)
    for (size_t second = 0; second < shape.size(); ++second) {
      if (minor == second) continue;
      const int64_t others = elements / (shape[minor] * shape[second]);
      const int64_t padded = others * padded_rows(shape[second], pack) * rounded_up(shape[minor], kLanes);
      if (least == 0 || padded < least) least = padded;
    }
  return least * element_bytes;
}

}  // namespace megacpp::runtime::plugins
