// SPDX-License-Identifier: Apache-2.0
// One chip's end of a transport: an in-process thread, an MPI rank or a GPU. Calls are split into start and finish, so
// that a program computes while tensors move. Used by one thread at a time.
// - All members of a group start the same calls in the same order; calls of different groups, and the two ends of a
//   send, need no common order. They may be finished in any order, but a call is sure to advance only while its
//   members are inside finish(), of whichever call.
// - A failed chip never leaves the others waiting: it calls abort(), and whoever waits, or calls later, gets E3101.
//   A wait beyond the transport's limit is E3102, and aborts. Members that disagree about a call get an internal error.
//   Once abort() has returned, or a call has thrown, no other chip reads this one's buffers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/collectives/call.h"

namespace megacpp::collectives {

/// Calls of one group that a chip may have in flight; and as many sends and receives, taken together, beside those
/// that reserve_messages() made room for.
inline constexpr int64_t kMaxInFlight = 128;

/// A call in flight, to be finished once.
struct Ticket {
  int64_t number = -1;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int64_t rank() const = 0;  // this chip's number in the mesh
  virtual int64_t chips() const = 0;

  /// The group of these chips (ordered, each once, this one among them), before step 0. All members create it, and
  /// their common groups in the same order; the same list again gives the same group. Lives as long as this.
  virtual const Group& create_group(const std::vector<int64_t>& members) = 0;

  /// Room for so many more sends and receives in flight, before step 0.
  virtual void reserve_messages(int64_t count) = 0;

  /// Posts a call and returns without waiting for anybody. Until it is finished the call and its operands must not
  /// change, and the results are nobody's to read. Never allocates.
  virtual Ticket start(const Call& call) = 0;

  /// Returns when the results are whole and nobody reads the operands or results of this chip any more: both are the
  /// caller's again. Sleeps while it waits. Never allocates.
  virtual void finish(Ticket ticket) = 0;

  /// Tells every chip that this one has failed; the first reason counts. For use before this chip's buffers go.
  virtual void abort(const std::string& reason) = 0;

  void run(const Call& call) { finish(start(call)); }

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
};

}  // namespace megacpp::collectives
