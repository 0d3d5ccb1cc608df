// SPDX-License-Identifier: Apache-2.0
// The books of the chips of one process: who has posted which call, and how far each member has got with it. Members in
// other processes are known by their index alone. Plain data without locks: the world's lock is held by whoever looks
// or writes. Allocates when made, never after.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/collectives/call.h"
#include "megacpp/collectives/processes/buffer_addresses.h"
#include "megacpp/collectives/processes/pieces.h"

namespace megacpp::collectives {

class CrossingGroup;

/// One call of a group. A local member passes gate 0 when it posts its call, gate k when it has made step k, and moves
/// on when all local members have passed the gate it stands behind; it leaves when all have passed the last gate.
class Rendezvous {
 public:
  Rendezvous(size_t members, size_t local) : calls_(members), gates_(members), local_(local) {}

  void post(int64_t index, const Call& call);
  void pass(int64_t index);
  bool leave();  // the last to leave makes the record new: true for it

  /// A call posted before, to compare with; null when this member is the first.
  const Call* posted() const { return posted_; }
  std::span<const Call* const> calls() const { return calls_; }  // by index; null: elsewhere, or not yet posted

  int64_t gates_passed(int64_t index) const { return gates_[static_cast<size_t>(index)]; }
  bool all_passed(int64_t gates) const { return passed_[static_cast<size_t>(gates)] == local_; }
  /// Whether this member may make its next step; which has the number gates_passed().
  bool is_step_due(int64_t index) const { return gates_passed(index) <= steps_ && all_passed(gates_passed(index)); }
  bool is_complete() const { return all_passed(steps_ + 1); }

 private:
  std::vector<const Call*> calls_;     // by index
  std::vector<int64_t> gates_;         // by index: passed so far
  std::array<size_t, 4> passed_ = {};  // members that have passed at least so many gates
  const Call* posted_ = nullptr;       // gone once its chip has left
  int64_t steps_ = 0;
  size_t local_ = 0;  // members in this process
  size_t left_ = 0;
};

/// The calls of a group that may be in flight at once. A member runs at most kMaxInFlight calls ahead of its own
/// oldest, and none of it is finished before all members have posted it: so no two members are further apart than twice
/// that.
class GroupCalls {
 public:
  /// `local_chips`: those of this process.
  GroupCalls(std::vector<int64_t> members, const std::vector<int64_t>& local_chips);
  const std::vector<int64_t>& members() const { return members_; }
  const std::vector<int64_t>& local() const { return local_; }
  bool crosses() const { return local_.size() < members_.size(); }
  Rendezvous& rendezvous(int64_t sequence) { return ring_[static_cast<size_t>(sequence) % ring_.size()]; }

  CrossingGroup* crossing = nullptr;  // what leaves the process; none: nothing does

 private:
  std::vector<int64_t> members_;  // chip numbers
  std::vector<int64_t> local_;    // indices of members in this process
  std::vector<Rendezvous> ring_;
};

/// A call that a chip has started and not finished.
struct InFlight {
  int64_t number = 0;  // of its ticket
  const Call* call = nullptr;
  GroupCalls* group = nullptr;       // of a collective
  Rendezvous* rendezvous = nullptr;  // of a collective
  int64_t sequence = 0;              // of a collective: counts the calls of its group
  bool is_taken = false;             // a send or receive that has found its other end
  bool is_moved = false;             // a send or receive whose data has arrived
  // Of a receive from another process of this host: its send, once it is found.
  struct Sent {
    const Peer* peer = nullptr;  // whose buffers are read
    AddressList addresses;       // of them, in its memory
    int64_t number = 0;          // of its ticket
  };
  Sent sent = {};
  // Of a send to another process, or a receive from it:
  Cursor cursor = {};           // bytes sent or received
  int64_t frames = 0;           // received
  std::string other_call = {};  // of a receive: what its send is, with its chip, where that is another movement

  bool is_complete() const;
  /// Changes whenever something from another process has come.
  int64_t arrivals() const;
  /// The call of another process that is not the same movement; empty: none known.
  const std::string& disagreement() const;
  /// The chips of this process it cannot go on without.
  std::vector<int64_t> awaited() const;
};

}  // namespace megacpp::collectives
