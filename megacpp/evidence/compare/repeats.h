// SPDX-License-Identifier: Apache-2.0
// What may count as a repeat: another run, not the same one again. The spread between two receipts of one run would be
// nothing, and any difference beside it sure.
#pragma once

#include <vector>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::compare {

/// One receipt of every run, the first, however often it was named or copied.
std::vector<receipt::Receipt> each_once(std::vector<receipt::Receipt> receipts);

}  // namespace megacpp::compare
