// SPDX-License-Identifier: Apache-2.0
// Which values share bytes, and when those bytes are in use. Takes a scheduled graph; leaves one buffer per set of
// values that live in the same place: a reshape and its operand, a result that takes over a dying operand, an output
// that takes over the input it replaces. Offsets come later (offsets.h).
//
// The tensors of one collective are contiguous, in its order, each at a multiple of the alignment, so that a
// transport may move them as one range: its operands in one buffer, its results in another. This holds for those that
// nodes of this program make where they like; inputs, what replaces state, views, and what is in place with another
// collective stay where they are. Never is anything copied for it. Where all that is reduced dies there, it is reduced
// in place. From the start of a collective, or of a copy between device and host, until it is done, nothing else is
// placed over its operands and results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/memory_tier.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::memory {

struct Buffer {
  int64_t bytes = 0;   // as used, before alignment
  uint32_t first = 0;  // index of the node that writes it first
  uint32_t last = 0;   // index of the last node that uses it
  ir::Role role = ir::Role::temporary;
  std::string scope;
  std::string what;   // op and type, for reports
  std::string state;  // name of the input whose storage this is; empty: temporary
  ir::Tier tier = ir::Tier::device;
};

struct Buffers {
  std::vector<Buffer> buffers;
  std::vector<int> buffer_of;     // by value
  std::vector<int64_t> place_in;  // by value: bytes from the start of its buffer
  std::vector<int> workspace_of;  // by node; -1: none
  /// Outputs that could not take over their donated input in place: copied into it after the last node.
  struct Copy {
    ir::ValueId from;
    std::string to_state;
  };
  std::vector<Copy> final_copies;
};

/// In other tiers than the device's there are state, which what replaces it is copied into in place, and temporaries
/// that copies leave there for later ones (ops/tier_copy.h). Either is in use until the last copy from it is done.
Buffers assign_buffers(const ir::Graph& graph, const schedule::Target& target);

}  // namespace megacpp::memory
