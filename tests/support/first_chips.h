// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace megacpp::testing_support {

/// 0, 1, ..., count - 1: the members of a group over the first chips of a mesh.
inline std::vector<int64_t> first_chips(int64_t count) {
  std::vector<int64_t> chips(static_cast<size_t>(count));
  std::iota(chips.begin(), chips.end(), int64_t{0});
  return chips;
}

}  // namespace megacpp::testing_support
