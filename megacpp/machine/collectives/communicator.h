// SPDX-License-Identifier: Apache-2.0
// One chip's end of a transport. A call is split into start and finish, both ordered on a stream, so that a chip
// computes while tensors move. Used by one thread at a time.
// - The caller only orders work. How calls advance is the transport's own matter, and neither function keeps the host
//   waiting where the transport can do better (Ordering::stream).
// - All members of a group start the same calls in the same order; calls of different groups, and the two ends of a
//   send, need no common order. Calls may be finished in any order, and no order leaves members waiting for each other.
// - A failed chip never leaves the others waiting: it calls abort(), and whoever waits, or calls later, gets E3101.
//   A wait beyond the transport's limit is E3102, and aborts. Members that disagree about a call get an internal error.
//   Once abort() has returned, or a call has thrown, no other chip of the process reads this one's buffers. Those of
//   other processes may until they hear of it, and end as well, whatever they got.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/call.h"

namespace megacpp::collectives {

/// Calls of one group that a chip may have in flight; and as many sends and receives, taken together, beside those
/// that reserve_messages() adds.
inline constexpr int64_t kMaxInFlight = 128;

/// Where a chip's work is ordered: a stream of its device, or the host thread that calls.
struct Stream {
  void* handle = nullptr;  // the device's own, such as a cudaStream_t; null: the calling host thread
};
inline constexpr Stream kHostThread = {};

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

  /// Says before step 0 that this call is going to be started. Transports that connect the two ends of a message by
  /// themselves do so before the first call; to all others it means nothing.
  virtual void announce(const Call&) {}

  /// Raises how many sends and receives may be in flight, before step 0.
  virtual void reserve_messages(int64_t count) = 0;

  /// Begins the call behind all work that `stream` holds, and returns without waiting for anybody. Until it is finished
  /// the call, its operands and its workspace must not change, and the results are nobody's to read. Never allocates.
  virtual Ticket start(const Call& call, Stream stream) = 0;

  /// Orders the end of the call before all later work of `stream`: that work finds the results whole, and operands,
  /// results and workspace are the caller's again. A device's stream does the waiting itself and this returns at once;
  /// on the host thread it returns when the call is complete, and sleeps until then, if not at first. Never allocates.
  virtual void finish(Ticket ticket, Stream stream) = 0;

  /// Tells every chip that this one has failed; the first reason counts. For use before this chip's buffers go.
  virtual void abort(const std::string& reason) = 0;

  void run(const Call& call, Stream stream) { finish(start(call, stream), stream); }

 protected:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
};

}  // namespace megacpp::collectives
