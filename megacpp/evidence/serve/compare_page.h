// SPDX-License-Identifier: Apache-2.0
// Runs against each other: the result, how surely and why, or why there is none.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/evidence/serve/page.h"

namespace megacpp::serve {

/// Runs of one comparison, at most.
inline constexpr size_t kMostCompared = 32;

/// What to tick, where fewer than two runs are named.
Page compare_help_page();
/// Of two receipts at least, in the order in which they were named; one that may not be compared is said, as by
/// `megacpp compare`.
Page compare_page(std::vector<receipt::Receipt> receipts);

}  // namespace megacpp::serve
