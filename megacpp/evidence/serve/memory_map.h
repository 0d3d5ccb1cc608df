// SPDX-License-Identifier: Apache-2.0
// The memory of the chips of a run: planned by role and by family against the limit, and what was measured.
#pragma once

#include <cstddef>
#include <string>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::serve {

/// Bars that are drawn, at most: those with the least free bytes, which receipts have first.
inline constexpr size_t kMostBars = 32;

std::string memory_map_html(const receipt::Memory& memory);

}  // namespace megacpp::serve
