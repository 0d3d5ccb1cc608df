// SPDX-License-Identifier: Apache-2.0
// What one member does in a collective when it sees the buffers of all others: it reads straight from them and writes
// its own results only. A call has steps; a member enters a step when all members have left the one before.
#pragma once

#include <cstdint>
#include <span>

#include "megacpp/collectives/call.h"

namespace megacpp::collectives {

/// all_reduce reduces one slice a member, then fetches the slices of the others. The rest have one step.
inline int64_t steps_of(Kind kind) { return kind == Kind::all_reduce ? 2 : 1; }

struct Member {
  std::span<const Call* const> calls;    // of all members, by index
  int64_t index = 0;                     // of this one
  std::span<const void*> operands = {};  // room for a pointer per member

  int64_t size() const { return static_cast<int64_t>(calls.size()); }
  const Call& call() const { return *calls[static_cast<size_t>(index)]; }
};

void move_data(const Member& member, int64_t step);

/// A receive from a send that means the same movement.
void receive(const Call& send, const Call& recv);

}  // namespace megacpp::collectives
