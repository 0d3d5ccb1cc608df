// SPDX-License-Identifier: Apache-2.0
// An HTTP endpoint on this machine's loopback address with one page, /metrics, for as long as the object lives. What it
// answers is a text that it was given before: requests wait for nobody, and nobody waits for requests.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "megacpp/evidence/http/server.h"

namespace megacpp::metrics {

class MetricsServer {
 public:
  /// `port` 0: any that is free. E3004 where the port cannot be had, or this program was built without a server.
  explicit MetricsServer(int port);

  int port() const { return server_->port(); }
  std::string url() const;
  /// What is answered from here on.
  void publish(std::string text);

 private:
  http::Answer answer(const http::Request& request, const http::Access& access);

  std::mutex mutex_;
  std::string text_;
  std::unique_ptr<http::Server> server_;  // the last member: ends before what it answers with
};

}  // namespace megacpp::metrics
