// SPDX-License-Identifier: Apache-2.0
// The half of a group's calls that leaves the process: how far each of the other processes has got with them. Plain
// data without locks, as the books of local members are; allocates when made, never after.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "megacpp/machine/collectives/engine/rendezvous.h"
#include "megacpp/machine/collectives/inproc/move.h"
#include "megacpp/machine/collectives/processes/buffer_addresses.h"
#include "megacpp/machine/collectives/processes/peers.h"
#include "megacpp/machine/collectives/processes/pieces.h"

namespace megacpp::collectives {

/// One call with one other process.
struct OtherProgress {
  int64_t gates = 0;  // that its members have passed (Rendezvous): 1 once it has arrived, more of a neighbour alone
  bool was_asked = false;  // what it calls instead
  uint64_t hash = 0;       // of its movement, once it has arrived
  // Of a neighbour, whose buffers are read:
  AddressList addresses;  // of its buffers, in its memory
  // Of one that is sent to:
  Cursor in;
  Cursor out;
};

/// One call with all other processes of its group.
struct ExchangeCall {
  std::vector<OtherProgress> others;  // as ExchangeGroup::others()
  bool is_open = false;               // all local members have posted
  uint64_t hash = 0;                  // of the movement here, once it is open
  bool is_broken = false;             // a neighbour's buffers could not be read: the run is about to fail
};

class ExchangeGroup {
 public:
  struct Other {
    int64_t process = 0;
    std::vector<int64_t> members;          // indices
    const Neighbour* neighbour = nullptr;  // null: bytes are sent
    const ProgressFlag* gates = nullptr;   // of a neighbour: of this group; null while it is not made there
  };
  struct Processes {
    const std::vector<int64_t>& owners;                       // the process of every chip
    const std::vector<std::optional<Neighbour>>& neighbours;  // by process
    ProgressFlags* flags = nullptr;                           // null: there are no neighbours
  };

  ExchangeGroup(GroupCalls& calls, const Processes& processes, Sums sums);

  uint64_t id() const { return id_; }  // the same in every process
  GroupCalls& calls() { return calls_; }
  const std::vector<Other>& others() const { return others_; }
  ExchangeCall& exchange(int64_t sequence) { return ring_[static_cast<size_t>(sequence) % ring_.size()]; }
  size_t other_of(int64_t process) const;
  /// Whether some of the others are neighbours, and whether some are not.
  bool reads_buffers() const { return own_flags_ != nullptr; }
  bool sends_bytes() const { return sends_bytes_; }
  /// By index: what stands for the operands of members elsewhere, in the workspace of a reduction.
  std::span<const Term> terms() const { return terms_; }

  // With neighbours:
  /// Tells that all local members have posted a call, and that they have passed more gates of it.
  void open(int64_t sequence);
  void pass(int64_t sequence, int64_t gates);
  /// Looks how far they are with it: whether any has got further.
  bool look(int64_t sequence);
  /// Of a call that all of them have arrived at: where their buffers are, by index. PeerGone.
  void find_remotes(int64_t sequence, std::span<Remote> remotes);

  Pieces outgoing(int64_t sequence, size_t other);
  Pieces incoming(int64_t sequence, size_t other);

  /// Local members may reduce once the operands of all others are there, and read those of neighbours that stand at the
  /// same step. Other steps need nobody else.
  bool may_step(int64_t sequence, int64_t step);
  bool is_done_with(int64_t sequence, size_t other);
  /// Chips of this process that keep the call waiting: by what they have not posted, or a step that needs nobody else.
  std::vector<int64_t> chips_behind(int64_t sequence);
  /// All local members have left.
  void reset(int64_t sequence);

 private:
  bool have_neighbours_passed(int64_t sequence, int64_t gates);

  GroupCalls& calls_;
  uint64_t id_ = 0;
  std::vector<Other> others_;  // by process
  bool sends_bytes_ = false;
  const Sums sums_;
  std::vector<Term> terms_;            // by index
  std::vector<const void*> pointers_;  // scratch of the thread that sends
  std::vector<ExchangeCall> ring_;     // as long as that of the calls
  ProgressFlag* own_flags_ = nullptr;  // for neighbours; null: there are none
  PublishedAddresses published_;       // for them
  std::vector<ReadAddresses> read_;    // of each, as others()
};

}  // namespace megacpp::collectives
