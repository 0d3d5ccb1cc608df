// SPDX-License-Identifier: Apache-2.0
// The largest shapes that ran, per model, topology and lane.
#pragma once

#include <cstddef>
#include <vector>

#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/evidence/serve/page.h"

namespace megacpp::serve {

/// Of the runs that were read; `unread` others were not yet.
Page ceilings_page(const std::vector<receipt::Receipt>& receipts, size_t unread);

}  // namespace megacpp::serve
