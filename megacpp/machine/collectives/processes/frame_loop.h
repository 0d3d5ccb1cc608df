// SPDX-License-Identifier: Apache-2.0
// Sends and receives frames, for all chips of a process. Chips that wait do so by turns; while all compute, a thread
// does: nothing has to be handed to a thread and back then, which takes longer than a message. What frames mean is its
// client's matter.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "megacpp/machine/collectives/engine/call_engine.h"
#include "megacpp/machine/collectives/processes/endpoint.h"
#include "megacpp/machine/collectives/processes/message_queue.h"

namespace megacpp::collectives {

class FrameLoop final : private Endpoint::Receiver {
 public:
  /// Called with the engine's lock held, by whoever has the turn.
  class Client {
   public:
    virtual ~Client() = default;
    /// Sends the bytes of calls that there is room for; whether any went, or any call is further.
    virtual bool advance_calls(EngineLock& lock) = 0;
    /// True while such bytes are to go or to come.
    virtual bool has_bytes_under_way() const = 0;
    virtual void on_frame(EngineLock& lock, int64_t process, const FrameHeader& header,
                          std::span<const std::byte> bytes) = 0;
    /// This process is gone: nothing will come from it any more, nor reach it.
    virtual void on_lost(int64_t process, const std::string& why) = 0;
    /// Frames that have come are dealt with.
    virtual void on_polled(EngineLock& lock) = 0;
  };

  FrameLoop(CallEngine& engine, std::unique_ptr<Endpoint> endpoint, Client& client);
  /// Sends what is left.
  ~FrameLoop() override;
  /// Its client and the engine are ready for what may come.
  void begin();

  // The rest is called with the engine's lock held.

  /// Messages go in order, as soon as there is room.
  void post(int64_t process, const FrameHeader& header, std::string text = {});
  /// Sends them now, where nobody uses the endpoint; who does takes them along. Bytes of calls are the thread's, unless
  /// a chip waits.
  void flush();
  /// A frame of a text that has come: the text, once it is whole.
  std::optional<std::string> text_of(int64_t process, const FrameHeader& header, std::span<const std::byte> bytes) {
    return queue_.add(process, header, bytes);
  }
  /// For whoever sends and receives at the moment.
  void wake();
  /// Only for a client that sends bytes of calls: as Endpoint has them.
  std::span<std::byte> room(int64_t process) { return endpoint_->room(process); }
  void send(int64_t process, size_t bytes) { endpoint_->send(process, bytes); }

  // Chips that wait call these (OtherProcesses):
  std::optional<std::chrono::microseconds> take_turn_of(EngineLock& lock, int64_t chip);
  void stop_waiting(int64_t chip);

 private:
  using Clock = CallEngine::Clock;
  /// A turn may look for frames:
  enum class Poll : uint8_t {
    if_needed,  // where frames are under way that a call waits for
    always,
  };

  void on_frame(int64_t process, std::span<const std::byte> frame) override;
  void on_lost(int64_t process, const std::string& why) override;

  void run();  // the thread
  bool may_close();
  bool take_turn(EngineLock& lock, Poll poll);
  bool receive(EngineLock& lock);
  bool pump(EngineLock& lock);
  bool is_needed() const { return !queue_.is_empty() || client_.has_bytes_under_way(); }
  std::chrono::microseconds pause() const;

  CallEngine& engine_;
  std::unique_ptr<Endpoint> endpoint_;
  Client& client_;
  MessageQueue queue_;
  bool is_in_turn_ = false;        // a thread uses the endpoint
  std::optional<int64_t> driver_;  // the chip that takes turns
  int64_t turns_ = 0;              // of such chips
  Clock::time_point last_event_;
  std::condition_variable no_driver_;
  std::optional<Clock::time_point> failed_at_;  // when the loop has seen it
  bool is_closing_ = false;
  Clock::time_point closing_limit_;
  std::thread thread_;  // ends before what it uses
};

}  // namespace megacpp::collectives
