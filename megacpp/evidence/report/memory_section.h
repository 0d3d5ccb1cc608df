// SPDX-License-Identifier: Apache-2.0
// The part of a page about the memory of a run: every chip against its limit by family, the worst one by role, planned
// against measured, and the worst along a step.
#pragma once

#include <string>

#include "megacpp/evidence/receipt/receipt.h"
#include "megacpp/evidence/report/html.h"

namespace megacpp::report {

void add_memory(Page& page, const receipt::Memory& memory);

/// "1.50 GiB", of a number in a picture.
std::string bytes_text(double bytes);

}  // namespace megacpp::report
