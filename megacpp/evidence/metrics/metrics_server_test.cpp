// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/metrics_server.h"

#include <gtest/gtest.h>

#include <vector>

#include "megacpp/evidence/metrics/run_exports.h"
#include "tests/support/http_client.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/support/whole_report.h"

namespace megacpp::metrics {
namespace {

using testing_support::answer_to;
using testing_support::has;
using testing_support::request_head;

std::string get(int port, const std::string& path) { return answer_to(port, request_head(port, "GET " + path)); }

TEST(MetricsServerTest, WhatWasPublishedLastIsAnswered) {
  MetricsServer server(0);
  ASSERT_GT(server.port(), 0);
  EXPECT_TRUE(has(get(server.port(), "/metrics"), " 200 ")) << "before anything is published";
  server.publish("a 1\n");
  server.publish("a 2\n");
  const std::string answer = get(server.port(), "/metrics");
  EXPECT_TRUE(has(answer, " 200 ") && answer.ends_with("\r\n\r\na 2\n")) << answer;
  EXPECT_TRUE(has(answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n")) << answer;
  EXPECT_TRUE(has(answer, "X-Content-Type-Options: nosniff\r\n")) << answer;
}

TEST(MetricsServerTest, NothingElseIsAnswered) {
  MetricsServer server(0);
  server.publish("a 1\n");
  for (const char* path : {"/", "/metrics/x", "/metrics/../../etc/passwd", "/etc/passwd", "/%2e%2e/etc/passwd"})
    EXPECT_TRUE(has(get(server.port(), path), " 404 ")) << path;
  EXPECT_TRUE(has(get(server.port(), "/metrics/"), " 400 ")) << "an empty segment";
  for (const char* host : {"evil.example", "evil.example:9400", "localhost"}) {
    const std::string answer =
        answer_to(server.port(), "GET /metrics HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n");
    EXPECT_TRUE(has(answer, " 403 ") && !has(answer, "a 1")) << answer;
  }
  EXPECT_TRUE(has(answer_to(server.port(), "GET /metrics HTTP/1.0\r\n\r\n"), " 400 ")) << "no host";
  const std::string posted =
      answer_to(server.port(), request_head(server.port(), "POST /metrics", "Content-Length: 4\r\n") + "abcd");
  EXPECT_TRUE(has(posted, " 405 ")) << posted;
  EXPECT_TRUE(has(get(server.port(), "/metrics"), "a 1")) << "and it goes on";
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
