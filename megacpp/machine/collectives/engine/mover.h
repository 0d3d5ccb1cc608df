// SPDX-License-Identifier: Apache-2.0
// A transport, behind the one call engine (call_engine.h): it moves the bytes of a call to where they belong and speaks
// with other processes. All functions but enter() are called with the engine's lock
// held. Those that get it may let go of it for a while; none allocates after step 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "megacpp/machine/collectives/communicator.h"
#include "megacpp/machine/collectives/engine/rendezvous.h"
#include "megacpp/machine/collectives/failure.h"

namespace megacpp::collectives {

using EngineLock = std::unique_lock<std::mutex>;

/// Moves bytes: at once, by the threads that wait (advance), or by streams of a device that it orders (join).
class Mover {
 public:
  virtual ~Mover() = default;

  /// The calling thread works for this chip. Without the lock.
  virtual void enter(int64_t /*chip*/) {}

  // Before step 0:
  /// The calling thread works for `chip`, after an error too.
  virtual void open(GroupCalls& /*group*/, int64_t /*chip*/) {}
  /// The mover's own state beside a call of the chip. The thread works for this chip from here on.
  virtual std::unique_ptr<CallState> make_state(int64_t /*chip*/) { return nullptr; }

  // When a call starts:
  /// It is behind all work that the stream holds.
  virtual void mark(InFlight& call, Stream stream) = 0;
  /// All local members have posted it, `last` as the last of them.
  virtual void begin(EngineLock& lock, InFlight& last) = 0;
  /// A send and its receive, both in this process, have found each other; `chip` has started the later one.
  virtual void begin_message(InFlight& send, InFlight& recv, int64_t chip) = 0;
  /// A send or receive whose other end is in another process.
  virtual void begin_remote(EngineLock& lock, InFlight& message) = 0;

  // While a chip finishes this call or another one:
  /// Does the chip's next share of it; whether there was any.
  virtual bool advance(EngineLock& /*lock*/, InFlight& /*call*/) { return false; }
  /// It is complete: orders its end before later work of the stream.
  virtual void join(EngineLock& /*lock*/, InFlight& /*call*/, Stream /*stream*/) {}
  /// All local members have left it.
  virtual void forget(GroupCalls& /*group*/, int64_t /*sequence*/) {}

  /// After a failure that `chip` of this process has told: returns when streams no longer use buffers of chips.
  virtual void settle(int64_t /*chip*/) {}
};

/// Other processes of the run, where there are any.
class OtherProcesses {
 public:
  virtual ~OtherProcesses() = default;

  /// Tells them of a failure here; CallEngine::decide() is called with the one that counts, sooner or later.
  virtual void propose(const Failure& failure) = 0;
  /// The longest wait for that.
  virtual std::chrono::milliseconds decision_limit() const { return {}; }
  /// " in process 1 on node7"; empty for chips of this process, and where that is not known.
  virtual std::string place_of(int64_t /*chip*/) const { return ""; }
  /// Adds what they say about a call that has waited too long. Waits for their answers, not for long.
  virtual void ask(EngineLock& /*lock*/, const InFlight& /*call*/, Waited& /*waited*/) {}

  /// A chip waits: it may send and receive for all chips of its process. How long to sleep before it does so again;
  /// nothing: it is to sleep until it is woken.
  virtual std::optional<std::chrono::microseconds> take_turn(EngineLock& /*lock*/, int64_t /*chip*/) {
    return std::nullopt;
  }
  /// It does no longer.
  virtual void stop_waiting(int64_t /*chip*/) {}
};

}  // namespace megacpp::collectives
