// SPDX-License-Identifier: Apache-2.0
// The chips of one of several processes: among themselves they move bytes as threads do, and with those of others over
// an endpoint. Puts together what has to do with other processes: who is there (liveness.h), what all agree on
// (agreement.h), the bytes of calls (exchange.h) and who waits for whom (inquiry.h), all by frames of one loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/machine/collectives/inproc/thread_mover.h"
#include "megacpp/machine/collectives/processes/agreement.h"
#include "megacpp/machine/collectives/processes/exchange.h"
#include "megacpp/machine/collectives/processes/inquiry.h"
#include "megacpp/machine/collectives/processes/liveness.h"

namespace megacpp::collectives {

class ProcessMover final : public ThreadMover, public OtherProcesses, private FrameLoop::Client {
 public:
  /// The engine has no calls yet. `owners`: the process of every chip. It begins at once.
  ProcessMover(CallEngine& engine, std::unique_ptr<Endpoint> endpoint, std::vector<int64_t> owners, Sums sums);

  // Without the engine's lock:
  std::vector<std::string> gather(const std::string& own, const AgreementTimeouts& timeouts) {
    return agreement_.gather(own, timeouts);
  }
  std::optional<std::string> silent_successor(std::chrono::milliseconds limit) {
    return liveness_.silent_successor(limit);
  }
  void set_hosts(std::vector<std::string> hosts);
  void set_neighbours(std::vector<std::optional<Neighbour>> neighbours);
  /// Flags that others need to be neighbours; null where none can be.
  const ProgressFlags* flags() const { return flags_.get(); }

  // Mover:
  std::unique_ptr<CallState> make_state(int64_t chip) override;
  void open(GroupCalls& group, int64_t /*chip*/) override { exchange_.open(group); }
  void mark(InFlight& call, Stream stream) override;
  void begin(EngineLock& lock, InFlight& last) override;
  void begin_remote(EngineLock& lock, InFlight& message) override;
  bool advance(EngineLock& lock, InFlight& call) override;
  void forget(GroupCalls& group, int64_t sequence) override { exchange_.forget(group, sequence); }

  // OtherProcesses:
  void propose(const Failure& failure) override { liveness_.propose(failure); }
  std::chrono::milliseconds decision_limit() const override;
  std::string place_of(int64_t chip) const override {
    return map_.owner(chip) == map_.own ? "" : " in " + map_.place(map_.owner(chip));
  }
  void ask(EngineLock& lock, const InFlight& call, Waited& waited) override { inquiry_.ask(lock, call, waited); }
  std::optional<std::chrono::microseconds> take_turn(EngineLock& lock, int64_t chip) override {
    return loop_.take_turn_of(lock, chip);
  }
  void stop_waiting(int64_t chip) override { loop_.stop_waiting(chip); }

 private:
  bool prepare(InFlight& call, int64_t step, Member& member) override;
  void on_passed(InFlight& call, int64_t gates) override;

  bool advance_calls(EngineLock& lock) override { return exchange_.advance(lock); }
  bool has_bytes_under_way() const override { return exchange_.has_bytes_under_way(); }
  void on_frame(EngineLock& lock, int64_t process, const FrameHeader& header,
                std::span<const std::byte> bytes) override;
  void on_text(EngineLock& lock, int64_t process, const FrameHeader& header, const std::string& text);
  void on_lost(int64_t process, const std::string& why) override { liveness_.on_lost(process, why); }
  void on_polled(EngineLock& lock) override;

  ProcessMap map_;
  const std::unique_ptr<ProgressFlags> flags_;
  std::vector<std::vector<Remote>> remotes_;  // by chip; scratch of move_data()
  Exchange exchange_;
  Liveness liveness_;
  Agreement agreement_;
  Inquiry inquiry_;
  FrameLoop loop_;  // ends before what it uses
};

}  // namespace megacpp::collectives
