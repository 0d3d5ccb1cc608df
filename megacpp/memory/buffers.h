// SPDX-License-Identifier: Apache-2.0
// Which values share bytes, and when those bytes are in use. Takes a scheduled graph; leaves one buffer per set of
// values that live in the same place: a reshape and its operand, a result that takes over a dying operand, an output
// that takes over the input it replaces. Offsets come later (offsets.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/ir/graph.h"
#include "megacpp/schedule/target.h"

namespace megacpp::memory {

struct Buffer {
  int64_t bytes = 0;   // as used, before alignment
  uint32_t first = 0;  // index of the node that writes it first
  uint32_t last = 0;   // index of the last node that uses it
  ir::Role role = ir::Role::temporary;
  std::string scope;
  std::string what;   // op and type, for reports
  std::string state;  // name of the input whose storage this is; empty: temporary
};

struct Buffers {
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of;     // by value
  std::vector<int> workspace_of;  // by node; -1: none
  /// Outputs that could not take over their donated input in place: copied into it after the last node.
  struct Copy {
    ir::ValueId from;
    std::string to_state;
  };
  std::vector<Copy> final_copies;
};

Buffers assign_buffers(const ir::Graph& graph, const schedule::Target& target);

}  // namespace megacpp::memory
