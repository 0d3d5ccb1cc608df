// SPDX-License-Identifier: Apache-2.0
// The dashboard on a port (http/server.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "megacpp/evidence/http/server.h"
#include "megacpp/evidence/serve/answer.h"
#include "megacpp/evidence/serve/run_index.h"
#include "megacpp/run/launch/users_catalog.h"

namespace megacpp::serve {

inline constexpr size_t kMostFeeds = 32;
inline constexpr size_t kThreads = 48;  // more than feeds, so that pages are answered beside them

struct Listen {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any that is free
  std::string token = {};
  std::chrono::milliseconds head_time{5'000};  // for the head of a request
};

class Server {
 public:
  /// Serves from here on, with threads of its own; `runs` must outlive it. E1007 as http::access_for(), E3004 where the
  /// address cannot be listened on.
  Server(const Listen& listen, RunIndex& runs, const launch::CatalogChoice& catalog = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return http_->port(); }
  /// For a browser: "http://127.0.0.1:8077/", with the token where one is needed.
  std::string url() const;

 private:
  Listen listen_;
  Site site_;
  std::unique_ptr<http::Server> http_;  // the last member: ends before what it answers with
};

}  // namespace megacpp::serve
