// SPDX-License-Identifier: Apache-2.0
// Which algorithm a product runs with: the one kept for the same card, driver and library where the library still takes
// it, else the fastest of its proposals, timed at load on memory of the product's size, and kept. All searches of a
// load together have a few seconds, shared by the work that hangs on them: the library proposes the likely ones first.
// Small products take the first proposal. Load only: what runs later was decided here, and says how (LtChoice).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/cuda/cublaslt.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

/// For all of them, each counted as often as it is there; choose_algorithm() has them then.
void choose_algorithms(Toolbox& toolbox, const std::vector<LtProblem>& problems);

/// Where the searches of a load stand before one of them.
struct SearchBudget {
  double seconds_left = 0;
  size_t searches_left = 1;  // this one among them
  double flops = 0;          // of all nodes that wait for it
  double flops_left = 0;     // of all searches that are left
};
/// The seconds that the search may take: half as all the others, half by its work.
double search_share(const SearchBudget& budget);

/// Nothing where the library has no algorithm for the problem.
std::optional<LtChoice> choose_algorithm(Toolbox& toolbox, const LtProduct& product);

/// How many products took which way, and why: "algorithms of products: 3 kept; 15 searched, since none is kept". Empty
/// without any.
std::string choices_text(const CublasLt& library);
std::string choices_text(const std::map<std::string, LtChoice>& choices);

/// Of every product and its algorithm, however that was found: runs with the same text compute products alike. 16
/// hexadecimal digits.
std::string choices_hash(const std::map<std::string, LtChoice>& choices);

}  // namespace megacpp::runtime::cuda
