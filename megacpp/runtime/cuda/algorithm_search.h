// SPDX-License-Identifier: Apache-2.0
// Which algorithm a product runs with: the one kept for the same card, driver and library where the library still takes
// it, else the fastest of its proposals, timed at load on memory of the product's size, and kept. Small products take
// the first proposal. Load only: what runs later was decided here, and says how (LtChoice).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "megacpp/runtime/counters.h"
#include "megacpp/runtime/cuda/cublaslt.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

/// Nothing where the library has no algorithm for the problem.
std::optional<LtChoice> choose_algorithm(Toolbox& toolbox, const LtProduct& product);

/// As a run counts what it made ready: kept algorithms are cache hits, all others that are worth it are compiles, with
/// their cause.
void count_choices(const std::map<std::string, LtChoice>& choices, Counters& counters);

}  // namespace megacpp::runtime::cuda
