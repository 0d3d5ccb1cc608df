// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/finite_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace megacpp::runtime {

bool all_finite(std::span<const std::byte> values, ir::DType dtype) {
  constexpr int64_t kTile = 256;
  const ir::DTypeRecord& type = ir::record(dtype);
  const auto count = static_cast<int64_t>(values.size()) / type.bytes();
  std::array<float, kTile> tile;
  for (int64_t first = 0; first < count; first += kTile) {
    const int64_t size = std::min(kTile, count - first);
    type.to_f32(values.data() + first * type.bytes(), tile.data(), size);
    if (!std::all_of(tile.begin(), tile.begin() + size, [](float value) { return std::isfinite(value); })) return false;
  }
  return true;
}

}  // namespace megacpp::runtime
