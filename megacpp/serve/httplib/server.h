// SPDX-License-Identifier: Apache-2.0
// The dashboard on a socket, by cpp-httplib. One request a connection. What a client may send and for how long it may
// take is bounded: a head of 8 KiB within 5 s, no body, 5 s for each write; pages that are kept up to date are counted,
// and one too many is refused. So slow or broken clients cost a thread for seconds and no memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "megacpp/launch/users_catalog.h"
#include "megacpp/serve/run_index.h"

namespace megacpp::serve {

inline constexpr size_t kMostHeadBytes = 8192;
inline constexpr std::chrono::seconds kWriteTime{5};
inline constexpr int kMostFeeds = 32;
inline constexpr size_t kThreads = 48;  // more than feeds, so that pages are answered beside them

struct Listen {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any that is free
  std::string token = {};
  std::chrono::milliseconds head_time{5'000};  // for the head of a request
};

class Server {
 public:
  /// Serves from here on, with threads of its own; `runs` must outlive it. E1007 as access_for(), E3501 where the
  /// address cannot be listened on.
  Server(const Listen& listen, RunIndex& runs, const launch::CatalogChoice& catalog = {});
  /// Ends all connections.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  /// For a browser: "http://127.0.0.1:8077/", with the token where one is needed.
  std::string url() const;

 private:
  class Http;
  std::unique_ptr<Http> http_;
};

}  // namespace megacpp::serve
