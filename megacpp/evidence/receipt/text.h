// SPDX-License-Identifier: Apache-2.0
// A receipt for people: the five answers and the verdict first, then the figures. What is not known is left out or said
// to be not known, never printed as 0.
#pragma once

#include <string>

#include "megacpp/evidence/receipt/receipt.h"

namespace megacpp::receipt {

std::string report_text(const Receipt& receipt);

/// "finished after 150 of 150 steps, started 2026-11-16T21:45:12Z, ended 2026-11-16T21:46:12Z"
std::string to_text(const Ending& ending);
/// "E2004 (runtime allocation) chip 3: data 1: 12.00 GiB"
std::string to_text(const Failure& failure);
/// "comparable", or "not comparable: too few steps, host sync".
std::string to_text(const Verdict& verdict);

}  // namespace megacpp::receipt
