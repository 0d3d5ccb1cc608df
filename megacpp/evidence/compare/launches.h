// SPDX-License-Identifier: Apache-2.0
// Receipts of all launches, also of those that memory did not suffice for: these left a receipt and no run.
#pragma once

#include <string>
#include <vector>

#include "megacpp/evidence/compare/sides.h"

namespace megacpp::compare {

/// As read_receipts(), but that a folder stands for all launches in it, and that each counts once.
ReadReceipts read_launches(const std::vector<std::string>& paths);

}  // namespace megacpp::compare
