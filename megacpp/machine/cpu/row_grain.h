// SPDX-License-Identifier: Apache-2.0
// Of how many rows a thread takes no fewer: less work is not worth waking it for.
#pragma once

#include <algorithm>
#include <cstdint>

namespace megacpp::runtime::cpu {

/// Rows of `elements` each, which may be none.
inline int64_t row_grain(int64_t elements) {
  constexpr int64_t kGrainElements = 8192;
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, elements));
}

}  // namespace megacpp::runtime::cpu
