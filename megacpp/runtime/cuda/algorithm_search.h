// SPDX-License-Identifier: Apache-2.0
// Which algorithm a product runs with: the one kept for the same card, driver and library where the library still takes
// it, else the fastest of its proposals, timed at load on memory of the product's size, and kept. Small products take
// the first proposal. Load only: what runs later was decided here, and says how (LtChoice).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "megacpp/runtime/cuda/cublaslt.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

/// Nothing where the library has no algorithm for the problem.
std::optional<LtChoice> choose_algorithm(Toolbox& toolbox, const LtProduct& product);

/// How many products took which way, and why: "algorithms of products: 3 kept; 15 searched, since none is kept". Empty
/// without any.
std::string choices_text(const CublasLt& library);
std::string choices_text(const std::map<std::string, LtChoice>& choices);

}  // namespace megacpp::runtime::cuda
