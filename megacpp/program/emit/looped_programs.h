// SPDX-License-Identifier: Apache-2.0
// The programs of one module with the loops over their blocks, and which of its tensors are stacked for these.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/emit/function.h"

namespace megacpp::emit {

class LoopedPrograms {
 public:
  /// The blocks that repeat do so in all graphs alike, which must outlive it. Without FunctionOptions::has_loops there
  /// are no passes, and every tensor is by itself.
  LoopedPrograms(const std::vector<const ir::Graph*>& graphs, const FunctionOptions& options);

  /// By the place of their graph.
  const Outlined& program(size_t index) const { return programs_[index]; }
  const std::vector<Pass>& passes(size_t index) const { return passes_[index]; }

  /// Tensors of these names: where a loop reads or makes one of them in each iteration they are one stack, which stands
  /// at the place of the first.
  std::vector<Slot> slots(const std::vector<std::string>& names) const;

 private:
  void add_stacks(std::vector<std::vector<std::string>> stacks);

  std::vector<Outlined> programs_;
  std::vector<std::vector<Pass>> passes_;
  std::vector<std::vector<std::string>> stacks_;      // by blocks, disjoint
  std::unordered_map<std::string, size_t> stack_of_;  // by name of a tensor
};

}  // namespace megacpp::emit
