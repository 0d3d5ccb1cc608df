// SPDX-License-Identifier: Apache-2.0
// One connection whose request's head has been read (head_reader.h): the head is read from memory, and writes are
// bounded in time, for a client that takes nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>

namespace megacpp::http {

class RequestSocket {
 public:
  /// `socket` stays the caller's. A write may be without progress for `write_time`.
  RequestSocket(int socket, std::string head, std::chrono::milliseconds write_time);

  int socket() const { return socket_; }
  bool is_readable() const { return begin_ < head_.size(); }
  /// False as soon as the client is gone.
  bool is_writable() const;
  /// Bytes of the head; 0 behind it: nothing more is read.
  ssize_t read(char* to, size_t most);
  /// Bytes that were written, less than 0 where the client takes none.
  ssize_t write(const char* from, size_t bytes) const;

 private:
  int socket_;
  std::string head_;
  size_t begin_ = 0;  // of what was not handed out yet
  std::chrono::milliseconds write_time_;
};

/// Tells the client that nothing follows, then reads what it still sends for a moment, so that closing does not take
/// back what it was sent. Closes the socket.
void close_gently(int socket);

}  // namespace megacpp::http
