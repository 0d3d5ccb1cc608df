// SPDX-License-Identifier: Apache-2.0
// Activations of blocks in the host's memory between the passes: in a program whose order is settled, a value that the
// forward pass keeps for the backward pass is copied to the host and fetched again by copies that run beside the work
// of blocks. In between the device has its bytes for others. The program computes the same.
//
// The order of copies is decided here. A value leaves behind its last reader in the forward pass, and its copy may take
// as long as the next block: it is done where the block behind that begins. It comes back from the moment on at which
// the backward pass enters the block before the one that reads it first. Where blocks begin is told by all values that
// could be offloaded (schedule/find_activations.h), whichever are. What would be back before it is gone stays, which is
// what the last blocks keep. What a copy reads or writes nobody else touches before it is done.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/memory_tier.h"

namespace megacpp::schedule {

/// From so many bytes on a copy takes longer than to start it.
inline constexpr int64_t kLeastOffloaded = int64_t{256} << 10;

struct OffloadedBlocks {
  std::vector<std::string> letters = {};  // empty: all
  int64_t least_bytes = kLeastOffloaded;  // of a value
  ir::Tier tier = ir::Tier::host;         // where they go

  bool has(std::string_view letter) const;
};

/// Of a program with both passes.
ir::Graph offload_activations(const ir::Graph& graph, const OffloadedBlocks& blocks);

// Where passes are programs of their own, outputs of one are inputs of the other.

/// What a forward program hands over to backward programs, by name.
struct HandedOver {
  std::set<std::string> candidates =
      {};                                // values of blocks that are worth a copy: both passes have their runs by these
  std::set<std::string> offloaded = {};  // of these: what goes through the other memory
  ir::Tier tier = ir::Tier::host;        // which that is
};

/// Of outputs with this prefix. What would be stored only when the program ends stays on the device: the forward pass
/// would wait for it with nothing to do, and the backward pass wants it first.
HandedOver handed_over(const ir::Graph& forward, std::string_view prefix, const OffloadedBlocks& blocks);
/// Offloaded outputs leave in that memory.
ir::Graph store_outputs(const ir::Graph& forward, const HandedOver& names);
/// Offloaded inputs, those that it has, come in that memory.
ir::Graph fetch_inputs(const ir::Graph& backward, const HandedOver& names);

}  // namespace megacpp::schedule
