// SPDX-License-Identifier: Apache-2.0
// The memory plan for people: totals, by role and family, by block, the largest allocations.
#pragma once

#include <string>

#include "megacpp/memory/memory_plan.h"

namespace megacpp::memory {

std::string to_text(const MemoryPlan& plan);

/// "1.50 MiB": binary units, three significant digits or so.
std::string human_bytes(int64_t bytes);

}  // namespace megacpp::memory
