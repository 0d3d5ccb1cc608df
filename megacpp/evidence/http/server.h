// SPDX-License-Identifier: Apache-2.0
// The one HTTP server of this program: what listens on a port is made here. One request a connection. What a client
// may send and for how long it may take is bounded: a head of 8 KiB within the time given, no body, 5 s for each write.
// Who has not sent a whole head keeps no thread, and of those there are so many at most (head_reader.h); event streams
// are counted, and one too many is refused. So slow or broken clients cost no memory, and a thread for seconds only
// where they take no answer. Who may read, and what, decides the responder (http/answer.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "megacpp/evidence/http/answer.h"

namespace megacpp::http {

inline constexpr size_t kMostHeadBytes = 8192;
inline constexpr std::chrono::seconds kWriteTime{5};
/// Clients that have connected and not sent a whole head: where one more comes the one that has waited longest is cut
/// off.
inline constexpr size_t kMostHeads = 512;
inline constexpr size_t kMostHeadsOfAddress = 128;

struct Listen {
  std::string where = "--port";  // what errors call the port
  std::string address = "127.0.0.1";
  int port = 0;            // 0: any that is free
  size_t threads = 4;      // that answer
  size_t most_events = 0;  // streams of events at once; fewer than threads, so that pages are answered beside them
  std::chrono::milliseconds head_time{5'000};  // for the head of a request
};

/// Called by several threads at once; never throws.
struct Responder {
  std::function<Answer(const Request&)> answer;
  /// For a request that did not get so far: one that cannot be read, or for which there is no room.
  std::function<Answer(int status)> refusal = http::refusal;
};

class Server {
 public:
  /// Ends all connections.
  virtual ~Server() = default;

  virtual int port() const = 0;
};

/// Serves from here on, with threads of its own; `responder` is called once, with the port. E3004 where the address
/// cannot be listened on.
std::unique_ptr<Server> serve(const Listen& listen, const std::function<Responder(int port)>& responder);

}  // namespace megacpp::http
