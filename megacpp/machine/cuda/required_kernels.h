// SPDX-License-Identifier: Apache-2.0
// What the kernels of a run ask their toolbox for and takes long to make: generated device code, algorithms of
// products. It is made for all programs before any is prepared: code on all cores, algorithms within one budget, and
// the same on all processes.
#pragma once

#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/machine/collectives/world.h"
#include "megacpp/machine/cuda/cublaslt.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

struct RequiredKernels {
  std::vector<std::string> sources = {};  // as Toolbox::generated()
  std::vector<LtProblem> products = {};   // once for every node
};

/// Adds those of a program.
void add_required(const ir::Graph& graph, RequiredKernels& required);

/// All processes together. Adds to Toolbox::load_seconds().
void prepare_kernels(const RequiredKernels& required, Toolbox& toolbox, collectives::World& world);
/// The same on another GPU of the process, which is current, by the algorithms of the first.
void prepare_same_kernels(const RequiredKernels& required, const Toolbox& first, Toolbox& other);

}  // namespace megacpp::runtime::cuda
