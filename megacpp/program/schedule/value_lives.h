// SPDX-License-Identifier: Apache-2.0
// Who reads each value, and until when it is held, while a pass changes what `fused` nodes read.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

class ValueLives {
 public:
  explicit ValueLives(const ir::Graph& graph);

  /// Nodes, ascending, each once.
  const std::vector<uint32_t>& readers(ir::ValueId value) const { return readers_[value.index]; }
  void add_reader(ir::ValueId value, uint32_t node);
  void remove_reader(ir::ValueId value, uint32_t node);

  /// The last node that reads it; behind all nodes for an output; before all for a value that nobody reads.
  int64_t last_read(ir::ValueId value) const;
  /// The last that reads it or a reshape of it, which is the same bytes.
  int64_t held_until(ir::ValueId value) const;
  bool is_output(ir::ValueId value) const { return is_output_[value.index]; }

  bool is_input(ir::ValueId value) const { return graph_.producer(value).op == ir::kInputOp; }
  /// State that an output of the program takes the place of, or a reshape of it: reading it later may cost a copy.
  bool is_replaced(ir::ValueId value) const { return is_replaced_[origin(value).index]; }

 private:
  ir::NodeId origin(ir::ValueId value) const;

  const ir::Graph& graph_;
  std::vector<std::vector<uint32_t>> readers_;  // by value
  std::vector<bool> is_output_;                 // by value
  std::vector<bool> is_replaced_;               // by node
};

}  // namespace megacpp::schedule
