// SPDX-License-Identifier: Apache-2.0
// What one member does in a collective with the buffers of all members whose memory it can read, those of its process
// and of its host: it writes its own results only. Operands of members elsewhere have been brought before: of a
// reduction as terms in the workspace, of others into the result. A call has steps; a member enters a step when all
// that it reads from have left the one before.
#pragma once

#include <cstdint>
#include <span>

#include "megacpp/machine/collectives/call.h"
#include "megacpp/machine/collectives/peer_memory.h"
#include "megacpp/machine/collectives/runs.h"

namespace megacpp::collectives {

/// A member in another process of this host.
struct Remote {
  const Peer* peer = nullptr;               // null: its buffers are not read
  std::span<const PartAddress> parts = {};  // where they are
};

struct Member {
  std::span<const Call* const> calls;    // by index; null: of a member in another process
  int64_t index = 0;                     // of this one
  std::span<const Remote> remotes = {};  // by index; none: nothing is read from other processes
  std::span<const Term> terms = {};      // by index: what stands for members of other processes; none: there are none
  std::span<const void*> pointers = {};  // room for two per member

  int64_t size() const { return static_cast<int64_t>(calls.size()); }
  const Call& call() const { return *calls[static_cast<size_t>(index)]; }
};

/// PeerGone: not to be tried again, results and operands in place may be half done.
void move_data(const Member& member, int64_t step);

/// A receive from a send that means the same movement; the same from another process.
void receive(const Call& send, const Call& recv);
void receive(const Remote& send, const Call& recv);

}  // namespace megacpp::collectives
