// SPDX-License-Identifier: Apache-2.0
// An HTTP endpoint on this machine's loopback address with one page, /metrics, for as long as the object lives. What it
// answers is a text that it was given before: requests wait for nobody, and nobody waits for requests.
#pragma once

#include <memory>
#include <string>

namespace megacpp::metrics {

class MetricsServer {
 public:
  virtual ~MetricsServer() = default;

  virtual int port() const = 0;
  /// What is answered from here on.
  virtual void publish(std::string text) = 0;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()) + "/metrics"; }
};

/// `port` 0: any that is free. E3004 where the port cannot be had, E1007 where this program was built without its HTTP
/// library.
std::unique_ptr<MetricsServer> start_metrics_server(int port);

}  // namespace megacpp::metrics
