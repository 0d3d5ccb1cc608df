// SPDX-License-Identifier: Apache-2.0
// Algorithms of products over the processes and GPUs of a run. Searches go by clocks, so that two processes would end
// with different algorithms for the same product, and with different bits where chips take a value for the same. So the
// first process that has a product chooses for all of them, and the others take that; so do the GPUs of a process.
#pragma once

#include <vector>

#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/cuda/cublaslt.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

/// As choose_algorithms(), all processes together, each with the products of its own programs. What another process has
/// chosen and the library refuses here is searched here; E3103 then, on all of them, since they would not compute
/// alike.
void choose_algorithms_together(collectives::World& world, Toolbox& toolbox, const std::vector<LtProblem>& problems);

/// For another GPU of the process, which is current, what its first one has chosen. E3103 where the library refuses
/// that on it.
void take_algorithms(const Toolbox& first, Toolbox& other, const std::vector<LtProblem>& problems);

}  // namespace megacpp::runtime::cuda
