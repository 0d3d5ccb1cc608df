// SPDX-License-Identifier: Apache-2.0
// The half of a group's calls that leaves the process: how far each of the other processes has got with them. Plain
// data without locks, as the books of local members are; allocates when made, never after.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "megacpp/collectives/inproc/rendezvous.h"
#include "megacpp/collectives/processes/pieces.h"

namespace megacpp::collectives {

/// One call with one other process.
struct Crossing {
  bool has_arrived = false;
  bool was_asked = false;  // what it calls instead
  uint64_t hash = 0;       // of its movement, once it has arrived
  Cursor in;
  Cursor out;
};

/// One call with all other processes of its group.
struct CrossingCall {
  std::vector<Crossing> others;  // as CrossingGroup::others()
  bool is_open = false;          // all local members have posted
  bool is_done = false;          // all that must come has come, all that must go has left the operands
  uint64_t hash = 0;             // of the movement here, once it is open
  int64_t frames = 0;            // received
  std::string other_call = {};   // of a process that does not agree, with its chip
};

class CrossingGroup {
 public:
  struct Other {
    int64_t process = 0;
    std::vector<int64_t> members;  // indices
  };

  /// `owners`: the process of every chip.
  CrossingGroup(GroupCalls& calls, const std::vector<int64_t>& owners, Sums sums);

  uint64_t id() const { return id_; }  // the same in every process
  GroupCalls& calls() { return calls_; }
  const std::vector<Other>& others() const { return others_; }
  CrossingCall& exchange(int64_t sequence) { return ring_[static_cast<size_t>(sequence) % ring_.size()]; }
  size_t other_of(int64_t process) const;
  /// By index: what stands for the operands of members elsewhere, in the workspace of a reduction.
  std::span<const Term> terms() const { return terms_; }

  Pieces outgoing(int64_t sequence, size_t other);
  Pieces incoming(int64_t sequence, size_t other);

  /// Local members may reduce once the operands of all others are there. Other steps need nobody else.
  bool may_step(int64_t sequence, int64_t step);
  bool is_done_with(int64_t sequence, size_t other);
  /// All local members have left.
  void reset(int64_t sequence);

 private:
  GroupCalls& calls_;
  uint64_t id_ = 0;
  std::vector<Other> others_;  // by process
  const Sums sums_;
  std::vector<Term> terms_;            // by index
  std::vector<const void*> pointers_;  // scratch of the thread that sends
  std::vector<CrossingCall> ring_;     // as long as that of the calls
};

}  // namespace megacpp::collectives
