// SPDX-License-Identifier: Apache-2.0
// The books of the chips of one process: who has posted which call, and how far each member has got with it. Members in
// other processes are known by their index alone. Plain data without locks: the engine's lock is held by whoever looks
// or writes. Allocates when made, never after.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/call.h"

namespace megacpp::collectives {

/// all_reduce reduces one slice a member, then fetches the slices of the others. The rest have one step.
inline int64_t steps_of(Kind kind) { return kind == Kind::all_reduce ? 2 : 1; }

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
  bool is_complete() const { return all_passed(steps_ + 1) && !is_exchanging; }

  // Other processes; unused where all members are in this one:
  bool is_exchanging = false;   // bytes of the call are still to come or to leave
  int64_t arrivals = 0;         // changes whenever something has come
  std::string other_call = {};  // of one that does not agree, with its chip

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
  struct Options {
    std::vector<int64_t> members;             // chip numbers, by index
    const std::vector<int64_t>& local_chips;  // of this process
    int64_t number = 0;                       // among the groups of this process
  };
  explicit GroupCalls(Options options);
  int64_t number() const { return number_; }
  const std::vector<int64_t>& members() const { return members_; }
  const std::vector<int64_t>& local() const { return local_; }  // indices of members in this process
  bool is_local() const { return local_.size() == members_.size(); }
  Rendezvous& rendezvous(int64_t sequence) { return ring_[static_cast<size_t>(sequence) % ring_.size()]; }

 private:
  int64_t number_;
  std::vector<int64_t> members_;
  std::vector<int64_t> local_;
  std::vector<Rendezvous> ring_;
};

/// The mover's own state beside a call in flight. It is made before step 0 and used again for later calls.
struct CallState {
  virtual ~CallState() = default;
};

/// A call that a chip has started and not finished.
struct InFlight {
  int64_t chip = 0;    // that has started it
  int64_t number = 0;  // of its ticket
  const Call* call = nullptr;
  GroupCalls* group = nullptr;       // of a collective
  Rendezvous* rendezvous = nullptr;  // of a collective
  int64_t sequence = 0;              // of a collective: counts the calls of its group
  // A send or receive has these:
  bool is_taken = false;          // it has found its other end
  InFlight* other_end = nullptr;  // where that is in this process, and the same movement
  int64_t arrivals = 0;           // changes whenever something has come from another process
  std::string other_call = {};    // of a receive: what its send is, with its chip, where that is another movement

  bool is_moved = false;  // by its mover: all of it has moved, or is ordered on streams
  std::unique_ptr<CallState> state;

  bool is_complete() const { return is_moved || (rendezvous && rendezvous->is_complete()); }
  int64_t all_arrivals() const { return rendezvous ? rendezvous->arrivals : arrivals; }
  /// The call of another chip that is not the same movement; empty: none known.
  const std::string& disagreement() const { return rendezvous ? rendezvous->other_call : other_call; }
  /// The chips of this process it cannot go on without; of a message its other end, wherever that is.
  std::vector<int64_t> awaited() const;
  /// Makes it as new, but for the mover's state.
  void reset();
};

}  // namespace megacpp::collectives
