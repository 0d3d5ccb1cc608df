// SPDX-License-Identifier: Apache-2.0
// Every byte of one chip before step 0, on its device and in the other tiers it keeps tensors in (ir/memory_tier.h).
// State (weights, gradients, optimizer, batch) is placed first and is shared by all programs of the run; behind it each
// program's temporaries share one region, since only one program runs at a time. Nothing is allocated after load: the
// arena is exactly `total_bytes` long. Where the target places buffers by itself, the plan counts what is alive at once
// and has no offsets. What stands in another tier has an arena there, in `away`, with state first and temporaries of
// the programs behind it in the same way, and is no part of the other numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/memory_tier.h"
#include "megacpp/program/memory/buffers.h"
#include "megacpp/program/schedule/target.h"

namespace megacpp::memory {

struct StateSlot {
  std::string name;
  ir::TensorType type;
  ir::Role role;
  std::string scope;
  ir::Tier tier = ir::Tier::device;
  int64_t offset = 0;  // in the arena of its tier
};

struct ProgramPlan {
  std::vector<int64_t> value_offset;      // by value, in the arena of its tier; every value has one, or none has
  std::vector<ir::Tier> value_tier;       // by value
  std::vector<int64_t> workspace_offset;  // by node; -1: none
  std::vector<int64_t> workspace_bytes;   // by node, as the target said, without alignment
  std::vector<Buffers::Copy> final_copies;
  int64_t temporary_bytes = 0;             // above the state
  int64_t lower_bound = 0;                 // most temporary bytes alive at once
  std::map<ir::Tier, int64_t> away_bytes;  // of temporaries in other tiers than the device's, above the state there
};

/// One line of the report: bytes alive at the peak, by what they are for and where they belong.
struct Item {
  ir::Role role;
  std::string letter;  // of the block: "A", "D", or "" outside blocks
  std::string block;   // "block07", "embed", "head", ...
  int64_t bytes = 0;
};

struct Allocation {
  std::string what;  // op and type, or state name
  std::string scope;
  ir::Role role;
  int64_t bytes = 0;
};

/// The arena of a tier.
struct AwayBytes {
  int64_t bytes = 0;             // with alignment
  int64_t activation_bytes = 0;  // of these: activations; the others are the optimizer's state

  AwayBytes& operator+=(const AwayBytes& other);
};

struct MemoryPlan {
  std::vector<StateSlot> state;        // within a role, first what collectives move, in their order; then by name
  std::vector<ProgramPlan> programs;   // as given
  int64_t state_bytes = 0;             // with alignment
  int64_t total_bytes = 0;             // the arena
  int64_t lower_bound = 0;             // of it: state, and the most temporary bytes alive at once
  std::map<ir::Tier, AwayBytes> away;  // the arenas of other tiers than the device's
  int64_t padding_bytes = 0;           // alignment at the peak, and gaps where buffers are placed
  std::string peak_program;
  std::vector<Item> items;          // at the peak; with padding they sum to total_bytes
  std::vector<Allocation> largest;  // at the peak, largest first, at most 20

  /// The sum over tiers that are memory of the host.
  AwayBytes of_host() const;
  const StateSlot* find_state(const std::string& name) const;
};

/// Programs whose inputs share a name share that state; types must agree.
MemoryPlan plan_memory(const std::vector<const ir::Graph*>& programs, const schedule::Target& target);

}  // namespace megacpp::memory
