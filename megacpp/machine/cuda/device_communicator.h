// SPDX-License-Identifier: Apache-2.0
// One chip's end of a transport between devices: calls are ordered on streams of the chip's GPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/machine/collectives/engine/call_engine.h"
#include "megacpp/machine/cuda/driver.h"

namespace megacpp::runtime::cuda {

/// Between two looks whether a stream has ended that another chip may keep waiting.
inline constexpr std::chrono::microseconds kLookEvery(50);
/// For such streams to end once a chip has failed: one that waits for a GPU that is lost never does.
inline constexpr std::chrono::seconds kEndLimit(3);

/// What `query` says of a stream or an event once that is no longer kNotReady. Still kNotReady: another chip has
/// failed, as `has_failed` says, and what waits for it has not ended within kEndLimit. After `limit` without either it
/// calls `time_out`, which raises.
template <typename Query, typename HasFailed, typename TimeOut>
Result wait_for_answer(const Query& query, const HasFailed& has_failed, std::chrono::milliseconds limit,
                       const TimeOut& time_out) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::optional<Clock::time_point> failed;
  Result result = kNotReady;
  while ((result = query()) == kNotReady) {
    const Clock::time_point now = Clock::now();
    if (!failed && has_failed()) failed = now;
    if (failed && now - *failed > kEndLimit) break;
    if (!failed && now - begin >= limit) time_out();
    std::this_thread::sleep_for(kLookEvery);
  }
  return result;
}

class DeviceCommunicator : public collectives::Communicator {
 public:
  /// Connects with the other members of all groups and messages that were made and announced, all processes together:
  /// what it keeps on the device for that is obtained then. memory::OutOfMemory where there is none. Nothing to do
  /// where all chips are of one process.
  virtual void connect() {}

  /// Returns when `stream` has done all it holds; where another chip can keep it waiting, with E3101 or E3102 as
  /// finish() does on a host.
  virtual void wait(Stream* stream) = 0;

  /// That a collective uses of its workspace, as Transport::workspace_bytes.
  virtual int64_t workspace_bytes(const collectives::Call& call, int64_t members) const = 0;
};

/// One whose calls are those of an engine, with a mover that orders them on streams.
class EngineCommunicator : public DeviceCommunicator {
 public:
  explicit EngineCommunicator(collectives::ChipCalls& calls) : calls_(calls) {}

  int64_t rank() const override { return calls_.rank(); }
  int64_t chips() const override { return calls_.chips(); }
  const collectives::Group& create_group(const std::vector<int64_t>& members) override {
    return calls_.create_group(members);
  }
  void reserve_messages(int64_t count) override { calls_.reserve_messages(count); }
  collectives::Ticket start(const collectives::Call& call, collectives::Stream stream) override {
    return calls_.start(call, stream);
  }
  void finish(collectives::Ticket ticket, collectives::Stream stream) override { calls_.finish(ticket, stream); }
  void abort(const std::string& reason) override { calls_.abort(reason); }

 private:
  collectives::ChipCalls& calls_;
};

}  // namespace megacpp::runtime::cuda
