// SPDX-License-Identifier: Apache-2.0
// What the kernels of a program ask their toolbox for and takes long to make: generated device code, algorithms of
// products. It is made for all of them before any is prepared: code on all cores, algorithms within one budget.
#pragma once

#include <string>
#include <vector>

#include "megacpp/ir/graph.h"
#include "megacpp/runtime/cuda/cublaslt.h"
#include "megacpp/runtime/cuda/toolbox.h"

namespace megacpp::runtime::cuda {

struct RequiredKernels {
  std::vector<std::string> sources = {};  // as Toolbox::generated()
  std::vector<LtProblem> products = {};   // once for every node
};

RequiredKernels required_kernels(const ir::Graph& graph);

/// Adds to Toolbox::load_seconds().
void prepare_kernels(const RequiredKernels& required, Toolbox& toolbox);

}  // namespace megacpp::runtime::cuda
