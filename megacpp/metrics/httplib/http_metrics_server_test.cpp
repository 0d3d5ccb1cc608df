// SPDX-License-Identifier: Apache-2.0
#include "megacpp/metrics/httplib/http_metrics_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/metrics/run_exports.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/support/whole_report.h"

namespace megacpp::metrics {
namespace {

using testing_support::has;

/// A connection to a port of this machine.
class Client {
 public:
  explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool is_connected() const { return is_connected_; }
  /// All that comes until the other side closes.
  std::string answer_to(const std::string& request) const {
    EXPECT_EQ(::send(socket_, request.data(), request.size(), MSG_NOSIGNAL), std::ssize(request));
    std::string answer;
    std::array<char, 4096> part{};
    for (ssize_t count = 0; (count = ::recv(socket_, part.data(), part.size(), 0)) > 0;)
      answer.append(part.data(), static_cast<size_t>(count));
    return answer;
  }

 private:
  int socket_;
  bool is_connected_ = false;
};

std::string get(int port, const std::string& path, const std::string& host = "localhost") {
  return Client(port).answer_to("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
}

TEST(MetricsServerTest, WhatWasPublishedLastIsAnswered) {
  const std::unique_ptr<MetricsServer> server = start_http_metrics_server(0);
  ASSERT_GT(server->port(), 0);
  EXPECT_TRUE(has(get(server->port(), "/metrics"), " 200 ")) << "before anything is published";
  server->publish("a 1\n");
  server->publish("a 2\n");
  const std::string answer = get(server->port(), "/metrics", "127.0.0.1:" + std::to_string(server->port()));
  EXPECT_TRUE(has(answer, " 200 ") && answer.ends_with("\r\n\r\na 2\n")) << answer;
  EXPECT_TRUE(has(answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n")) << answer;
  EXPECT_TRUE(has(answer, "X-Content-Type-Options: nosniff\r\n")) << answer;
}

TEST(MetricsServerTest, NothingElseIsAnswered) {
  const std::unique_ptr<MetricsServer> server = start_http_metrics_server(0);
  server->publish("a 1\n");
  for (const char* path : {"/", "/metrics/", "/metrics/../../etc/passwd", "/etc/passwd", "/%2e%2e/etc/passwd"})
    EXPECT_TRUE(has(get(server->port(), path), " 404 ")) << path;
  for (const char* host : {"evil.example", "evil.example:9400"}) {
    const std::string answer = get(server->port(), "/metrics", host);
    EXPECT_TRUE(has(answer, " 403 ") && !has(answer, "a 1")) << answer;
  }
  EXPECT_TRUE(has(Client(server->port()).answer_to("GET /metrics HTTP/1.0\r\n\r\n"), " 403 ")) << "no host";
  const std::string posted =
      Client(server->port()).answer_to("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nabcd");
  EXPECT_FALSE(has(posted, " 200 ")) << posted;
  EXPECT_FALSE(has(Client(server->port()).answer_to("\x01\x02\r\n\r\n"), " 200 "));
  EXPECT_TRUE(has(get(server->port(), "/metrics"), "a 1")) << "and it goes on";
}

TEST(MetricsServerTest, APortThatIsTakenIsAnErrorAndFreeAfterwards) {
  std::unique_ptr<MetricsServer> server = start_http_metrics_server(0);
  const int port = server->port();
  const base::Problem problem =
      testing_support::problem_of(base::Code::E3004, [&] { start_http_metrics_server(port); });
  EXPECT_TRUE(has(problem.got, std::to_string(port))) << problem.got;
  server.reset();
  EXPECT_FALSE(Client(port).is_connected());
  EXPECT_EQ(start_http_metrics_server(port)->port(), port);
}

TEST(MetricsServerTest, AClientThatSaysNothingDoesNotHoldTheEnd) {
  std::unique_ptr<MetricsServer> server = start_http_metrics_server(0);
  const Client silent(server->port());
  ASSERT_TRUE(silent.is_connected());
  EXPECT_TRUE(has(get(server->port(), "/metrics"), " 200 ")) << "others are answered, and the silent one was accepted";
  const auto start = std::chrono::steady_clock::now();
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(MetricsServerTest, ARunPublishesWhatItLogs) {
  const testing_support::TemporaryFolder folder;
  std::vector<std::string> said;
  RunExports exports({.metrics_port = 0}, [&](const launch::Line& line) { said.push_back(line.text); });
  ASSERT_EQ(said.size(), 1U);
  const std::string start = "http://127.0.0.1:";
  ASSERT_TRUE(said[0].starts_with(start) && said[0].ends_with("/metrics")) << said[0];
  const int port = std::stoi(said[0].substr(start.size()));
  exports.begin(folder.path(), 0);
  exports.add(testing_support::whole_report());
  const std::string answer = get(port, "/metrics");
  EXPECT_TRUE(has(answer, "megacpp_train_loss{run=\"" + folder.path().filename().string() + "\"} 2.5\n")) << answer;
  exports.add(testing_support::whole_report());
  EXPECT_TRUE(has(get(port, "/metrics"), "megacpp_train_tokens_total{run=")) << answer;
}

}  // namespace
}  // namespace megacpp::metrics
