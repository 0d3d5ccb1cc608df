// SPDX-License-Identifier: Apache-2.0
// What launches have learnt: outcome, predicted and measured bytes of every signature, the one written last first.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "megacpp/evidence/serve/page.h"
#include "megacpp/hardware/catalog/catalog.h"

namespace megacpp::serve {

inline constexpr size_t kMostEntries = 500;

/// `why_not`: why the catalog cannot be read; empty: it was.
Page catalog_page(const std::vector<catalog::Entry>& entries, const std::string& why_not);

}  // namespace megacpp::serve
