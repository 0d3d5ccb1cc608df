// SPDX-License-Identifier: Apache-2.0
// The books of the in-process transport: who has posted which call, and how far each member has got with it. Plain data
// without locks: the world's lock is held by whoever looks or writes. Allocates when made, never after.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/collectives/call.h"

namespace megacpp::collectives {

/// One call of a group. A member passes gate 0 when it posts its call, gate k when it has made step k, and moves on
/// when all members have passed the gate it stands behind; it leaves when all have passed the last gate.
class Rendezvous {
 public:
  explicit Rendezvous(size_t members) : calls_(members), gates_(members) {}

  void post(int64_t index, const Call& call);
  void pass(int64_t index);
  void leave();  // the last to leave makes the record new

  /// A call posted before, to compare with; null when this member is the first.
  const Call* posted() const { return posted_; }
  std::span<const Call* const> calls() const { return calls_; }

  int64_t gates_passed(int64_t index) const { return gates_[static_cast<size_t>(index)]; }
  bool all_passed(int64_t gates) const { return passed_[static_cast<size_t>(gates)] == calls_.size(); }
  /// Whether this member may make its next step; which has the number gates_passed().
  bool is_step_due(int64_t index) const { return gates_passed(index) <= steps_ && all_passed(gates_passed(index)); }
  bool is_complete() const { return all_passed(steps_ + 1); }

 private:
  std::vector<const Call*> calls_;     // by index
  std::vector<int64_t> gates_;         // by index: passed so far
  std::array<size_t, 4> passed_ = {};  // members that have passed at least so many gates
  const Call* posted_ = nullptr;       // gone once its chip has left
  int64_t steps_ = 0;
  size_t left_ = 0;
};

/// The calls of a group that may be in flight at once. A member runs at most kMaxInFlight calls ahead of its own
/// oldest, and none of it is finished before all members have posted it: so no two members are further apart than twice
/// that.
class GroupCalls {
 public:
  explicit GroupCalls(std::vector<int64_t> members);
  const std::vector<int64_t>& members() const { return members_; }
  Rendezvous& rendezvous(int64_t sequence) { return ring_[static_cast<size_t>(sequence) % ring_.size()]; }

 private:
  std::vector<int64_t> members_;  // chip numbers
  std::vector<Rendezvous> ring_;
};

/// A call that a chip has started and not finished.
struct InFlight {
  int64_t number = 0;  // of its ticket
  const Call* call = nullptr;
  Rendezvous* rendezvous = nullptr;  // of a collective
  int64_t sequence = 0;              // of a collective: counts the calls of its group
  bool is_taken = false;             // a send that a receive has found
  bool is_moved = false;             // a send or receive whose data has arrived

  bool is_complete() const { return rendezvous ? rendezvous->is_complete() : is_moved; }
  /// The chips it cannot go on without.
  std::vector<int64_t> awaited() const;
};

}  // namespace megacpp::collectives
