// SPDX-License-Identifier: Apache-2.0
// One request's end of a connection, with a bound on what is read and for how long: a server that bounds single reads
// and lines alone would lose a thread to a client which sends a byte now and then, and its memory to headers without
// end.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace megacpp::http {

class RequestSocket {
 public:
  struct Limits {
    const std::atomic<bool>& is_stopping;  // nothing more is read once it is set
    std::chrono::milliseconds head_time;   // for all that is read
    std::chrono::milliseconds write_time;  // without progress
    size_t head_bytes;                     // that are read, at most
  };
  /// `socket` stays the caller's.
  RequestSocket(int socket, const Limits& limits);

  int socket() const { return socket_; }
  bool is_readable() const;
  /// False as soon as the client is gone.
  bool is_writable() const;
  /// Bytes that were read; 0 at the end, less where the client is too slow or sends too much.
  ssize_t read(char* to, size_t most);
  /// Bytes that were written, less than 0 where the client takes none.
  ssize_t write(const char* from, size_t bytes) const;

 private:
  bool wait_for_head() const;
  /// Reads what has come into the buffer; as read().
  ssize_t fill();

  int socket_;
  Limits limits_;
  std::chrono::steady_clock::time_point head_end_;
  size_t bytes_left_;
  std::array<char, 2048> buffer_{};
  size_t begin_ = 0, end_ = 0;  // of what is in the buffer and not handed out
};

/// Tells the client that nothing follows, then reads what it still sends for a moment, so that closing does not take
/// back what it was sent. Closes the socket.
void close_gently(int socket);

}  // namespace megacpp::http
