// SPDX-License-Identifier: Apache-2.0
#include "megacpp/metrics/httplib/http_metrics_server.h"

#include <sys/socket.h>

#include <chrono>
#include <future>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <httplib.h>

#include "megacpp/base/error.h"
#include "megacpp/metrics/prometheus.h"

namespace megacpp::metrics {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr int kClientSeconds = 1;                            // that a client may be silent
constexpr size_t kClients = 2;                               // that are answered at once
constexpr auto kEndLimit = std::chrono::milliseconds(2500);  // for clients that are slow when the run ends

/// A name that a page of another site cannot have made its own by its name server.
bool is_of_this_machine(std::string_view host) {
  const std::string_view name = host.substr(0, host.rfind(':'));
  return name == kLoopback || name == "localhost";
}

/// What threads of the server use.
struct Endpoint {
  httplib::Server server;
  std::mutex mutex;
  std::string text;
};

void answer_from(Endpoint& endpoint) {
  httplib::Server& server = endpoint.server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kClients); };
  // Without SO_REUSEPORT, which is the library's default: two processes would share a port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.set_keep_alive_max_count(1);
  server.set_keep_alive_timeout(kClientSeconds);
  server.set_read_timeout(kClientSeconds);
  server.set_write_timeout(kClientSeconds);
  server.set_payload_max_length(0);
  server.set_default_headers({{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
  server.set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    if (is_of_this_machine(request.get_header_value("Host"))) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/metrics", [&endpoint](const httplib::Request&, httplib::Response& response) {
    const std::lock_guard lock(endpoint.mutex);
    response.set_content(endpoint.text, kPrometheusType);
  });
}

class HttpMetricsServer : public MetricsServer {
 public:
  explicit HttpMetricsServer(int port) {
    answer_from(*endpoint_);
    port_ = port == 0 ? endpoint_->server.bind_to_any_port(kLoopback) : port;
    const bool is_bound = port == 0 ? port_ > 0 : endpoint_->server.bind_to_port(kLoopback, port);
    MEGACPP_REQUIRE(is_bound, E3004,
                    {.where = "--metrics-port",
                     .got = fmt::format("port {} of {}, which cannot be listened on", port, kLoopback),
                     .wanted = "a port that no other process has; those below 1024 are the system's",
                     .next = "give another port, or 0 for any that is free"});
    std::packaged_task<void()> listen([endpoint = endpoint_] { endpoint->server.listen_after_bind(); });
    ended_ = listen.get_future();
    thread_ = std::thread(std::move(listen));
    // The library forgets a stop that comes before it runs.
    while (!endpoint_->server.is_running() && !has_ended_within(std::chrono::milliseconds(1))) continue;
  }

  ~HttpMetricsServer() override {
    endpoint_->server.stop();
    // A client that sends byte by byte is not worth waiting for: what it talks to lives as long as it does.
    if (has_ended_within(kEndLimit))
      thread_.join();
    else
      thread_.detach();
  }
  HttpMetricsServer(const HttpMetricsServer&) = delete;
  HttpMetricsServer& operator=(const HttpMetricsServer&) = delete;

  int port() const override { return port_; }

  void publish(std::string text) override {
    const std::lock_guard lock(endpoint_->mutex);
    endpoint_->text.swap(text);
  }

 private:
  bool has_ended_within(std::chrono::milliseconds limit) const {
    return ended_.wait_for(limit) == std::future_status::ready;
  }

  std::shared_ptr<Endpoint> endpoint_ = std::make_shared<Endpoint>();  // shared with the thread
  int port_ = 0;
  std::future<void> ended_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<MetricsServer> start_http_metrics_server(int port) { return std::make_unique<HttpMetricsServer>(port); }

}  // namespace megacpp::metrics
