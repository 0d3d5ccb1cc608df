// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/metrics_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "megacpp/evidence/metrics/prometheus.h"

namespace megacpp::metrics {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

}  // namespace

MetricsServer::MetricsServer(int port) {
  http::Listen listen{.where = "--metrics-port", .address = kLoopback, .port = port};
  listen.head_time = std::chrono::seconds(1);
  server_ = http::serve(listen, [this](int bound) {
    http::Responder responder;
    responder.answer = [this, access = http::access_for(kLoopback, bound, "")](const http::Request& request) {
      return answer(request, access);
    };
    return responder;
  });
}

std::string MetricsServer::url() const { return "http://" + http::host_text(kLoopback, port()) + "/metrics"; }

void MetricsServer::publish(std::string text) {
  const std::lock_guard lock(mutex_);
  text_.swap(text);
}

http::Answer MetricsServer::answer(const http::Request& request, const http::Access& access) {
  http::Admission admitted = http::admit(request, access);
  if (!admitted.target) return std::move(admitted.refused);
  if (admitted.target->segments != std::vector<std::string>{"metrics"}) return http::refusal(404);
  const std::lock_guard lock(mutex_);
  return http::make_answer(kPrometheusType, text_);
}

}  // namespace megacpp::metrics
