// SPDX-License-Identifier: Apache-2.0
// Replaces composites the target has no kernel for by their looped form, where the target compiles loops and the op
// says that a loop is better, else by their primitives. Each one that is taken apart is a fallback: counted, with the
// reason. A transpose of the program that only moves dimensions of 1, as one chip's part often has them, becomes a
// reshape, which is a view.
#pragma once

#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::schedule {

struct Fallback {
  std::string op;
  std::string scope;
  std::string reason;
};

struct Decomposed {
  ir::Graph graph;
  std::vector<Fallback> fallbacks;
};

Decomposed decompose(const ir::Graph& graph, const Target& target);

}  // namespace megacpp::schedule
