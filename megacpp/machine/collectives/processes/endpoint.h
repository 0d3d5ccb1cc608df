// SPDX-License-Identifier: Apache-2.0
// One process's end of the messages between the processes of a run: frames of bytes, whole and in order between any two
// processes, in rooms of a fixed size that are made once. It knows nothing of chips or collectives. MPI is one (mpi/);
// tests have another over sockets. All functions but wait() and wake() are called by one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace megacpp::collectives {

inline constexpr size_t kFrameBytes = size_t{128} << 10;  // of a frame at most

class Endpoint {
 public:
  /// Gets what has come.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    /// The bytes are there until it returns.
    virtual void on_frame(int64_t process, std::span<const std::byte> frame) = 0;
    /// Nothing will come from this process any more, nor reach it.
    virtual void on_lost(int64_t process, const std::string& why) = 0;
  };

  virtual ~Endpoint() = default;

  virtual int64_t process() const = 0;    // this one's number
  virtual int64_t processes() const = 0;  // of the run
  virtual std::string host() const = 0;   // the name of this process's machine

  /// Room for the next frame to another process, kFrameBytes; empty while those before it are on their way.
  virtual std::span<std::byte> room(int64_t process) = 0;
  /// Sends the first bytes of the room that was given last. To a process that is lost it does nothing.
  virtual void send(int64_t process, size_t bytes) = 0;
  /// Whether every frame has left the memory of this process.
  virtual bool is_flushed() = 0;

  /// Hands over what has come, and waits for nothing. Whether anything had come, or has left.
  virtual bool poll(Receiver& receiver) = 0;
  /// Sleeps at most `limit` until there may be something to do: a frame, a room, or wake(). By one thread, while
  /// another may use the rest.
  virtual void wait(std::chrono::microseconds limit) = 0;
  /// Ends wait(), or the next; from any thread.
  virtual void wake() = 0;

 protected:
  Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
};

}  // namespace megacpp::collectives
