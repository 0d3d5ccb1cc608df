// SPDX-License-Identifier: Apache-2.0
// The server on a real socket.
#include "megacpp/evidence/http/server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/http_client.h"
#include "tests/support/text.h"

namespace megacpp::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing_support::answer_to;
using testing_support::has;
using testing_support::HttpClient;
using testing_support::request_head;
using testing_support::status_of;

/// Answers "/" with a text, "/events" with events that count to three, "/endless" with one and no end.
Answer small_site(const Request& request, const Access& access) {
  Admission admitted = admit(request, access);
  if (!admitted.target) return std::move(admitted.refused);
  const std::string path = to_text(*admitted.target);
  if (path == "/") return make_answer("text/plain; charset=utf-8", "hello\n");
  if (path != "/events" && path != "/endless") return refusal(404);
  Answer events = make_answer("text/event-stream", "");
  EventSource source{.next = [count = 0, is_endless = path == "/endless"]() mutable -> std::optional<Event> {
                       if (++count > 1 && is_endless) return std::nullopt;
                       return Event{.text = "data: " + std::to_string(count) + "\n\n", .is_last = count == 3};
                     },
                     .pause = milliseconds(1)};
  events.events = std::move(source);
  return events;
}

std::unique_ptr<Server> small_server(const Listen& listen = {.threads = 4, .most_events = 2}) {
  return serve(listen, [](int port) {
    Responder responder;
    responder.answer = [access = access_for("127.0.0.1", port, "")](const Request& request) {
      return small_site(request, access);
    };
    return responder;
  });
}

TEST(HttpServerTest, AnswersAndEndsEachConnection) {
  const std::unique_ptr<Server> server = small_server();
  const std::string answer = answer_to(server->port(), request_head(server->port(), "GET /"));
  EXPECT_EQ(status_of(answer), 200) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nhello\n") && has(answer, "Connection: close")) << answer;
  const std::string head_only = answer_to(server->port(), request_head(server->port(), "HEAD /"));
  EXPECT_TRUE(status_of(head_only) == 200 && head_only.ends_with("\r\n\r\n")) << head_only;
}

TEST(HttpServerTest, WhatCannotBeReadIsRefusedWithTheHeadersToo) {
  const std::unique_ptr<Server> server = small_server();
  const std::vector<std::pair<std::string, int>> requests = {
      {"nonsense\r\n\r\n", 400},
      {"GET / HTTP/9.9\r\n\r\n", 400},
      {request_head(server->port(), "GET /", "no header\r\n"), 400},
      {request_head(server->port(), "BREW /"), 405},
      {request_head(server->port(), "POST /", "Content-Length: 4\r\n"), 405},
      {"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
  };
  for (const auto& [sent, status] : requests) {
    const std::string answer = answer_to(server->port(), sent);
    EXPECT_EQ(status_of(answer), status) << sent << answer;
    EXPECT_TRUE(has(answer, "X-Content-Type-Options: nosniff")) << sent << answer;
  }
}

TEST(HttpServerTest, EventsAreSentToTheirEnd) {
  const std::unique_ptr<Server> server = small_server();
  const std::string answer = answer_to(server->port(), request_head(server->port(), "GET /events"));
  EXPECT_TRUE(has(answer, "Content-Type: text/event-stream") && has(answer, "retry: 2000")) << answer;
  for (const char* event : {"data: 1\n\n", "data: 2\n\n", "data: 3\n\n"}) EXPECT_TRUE(has(answer, event)) << answer;
}

TEST(HttpServerTest, TooManyStreamsAreRefusedAndPagesStillAnswered) {
  const std::unique_ptr<Server> server = small_server();
  std::vector<std::unique_ptr<HttpClient>> open;
  for (int i = 0; i < 2; ++i) {
    open.push_back(std::make_unique<HttpClient>(server->port()));
    open.back()->send(request_head(server->port(), "GET /endless"));
    open.back()->read_until("data: 1", milliseconds(10'000));
  }
  EXPECT_EQ(status_of(answer_to(server->port(), request_head(server->port(), "GET /endless"))), 503);
  EXPECT_EQ(status_of(answer_to(server->port(), request_head(server->port(), "GET /"))), 200);
}

TEST(HttpServerTest, ClientsThatDripOrSayNothingCostSeconds) {
  const std::unique_ptr<Server> server = small_server({.threads = 2, .head_time = milliseconds(150)});
  const HttpClient silent(server->port());
  HttpClient slow(server->port());
  const auto start = steady_clock::now();
  while (!slow.is_ended() && steady_clock::now() - start < std::chrono::seconds(20)) {
    slow.send("G");
    slow.read_until("", milliseconds(40));
  }
  EXPECT_TRUE(slow.is_ended());
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(status_of(answer_to(server->port(), request_head(server->port(), "GET /"))), 200);
}

// Were one of them to keep a worker, there would be none for an hour; with one too many the oldest would be left.
TEST(HttpServerTest, HalfSentRequestsKeepNobodyWaiting) {
  const std::unique_ptr<Server> server = small_server({.threads = 2, .head_time = std::chrono::hours(1)});
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (size_t i = 0; i < kMostHeadsOfAddress + 2; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server->port()));
    slow.back()->send("GET / HT");
  }
  const auto start = steady_clock::now();
  EXPECT_EQ(status_of(answer_to(server->port(), request_head(server->port(), "GET /"))), 200);
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
  slow.front()->read_all();
  EXPECT_TRUE(slow.front()->is_ended()) << "one too many";
  slow.back()->send("TP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server->port()) + "\r\n\r\n");
  EXPECT_EQ(status_of(slow.back()->read_all()), 200) << "the one that has waited least";
}

TEST(HttpServerTest, HeadsThatAreTooLongAreCutOff) {
  const std::unique_ptr<Server> server = small_server();
  for (const std::string& sent :
       {"GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n",
        request_head(server->port(), "GET /", "X: " + std::string(20'000, 'b') + "\r\n"), std::string(20'000, 'c')}) {
    const auto start = steady_clock::now();
    const int status = status_of(answer_to(server->port(), sent));
    EXPECT_TRUE(status == 0 || status == 400 || status == 414) << status;
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(4)) << "by its length, not by its time";
  }
}

TEST(HttpServerTest, StoppingEndsStreamsAndSilentClients) {
  std::unique_ptr<Server> server = small_server();
  HttpClient stream(server->port()), silent(server->port());
  stream.send(request_head(server->port(), "GET /endless"));
  stream.read_until("data: 1", milliseconds(10'000));
  const auto start = steady_clock::now();
  server.reset();
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(3));
  stream.read_all();
  EXPECT_TRUE(stream.is_ended());
}

TEST(HttpServerTest, APortThatIsTakenIsAnErrorAndFreeAfterwards) {
  std::unique_ptr<Server> server = small_server();
  const int port = server->port();
  const Listen taken{.where = "--metrics-port", .port = port};
  const base::Problem problem = testing_support::problem_of(base::Code::E3004, [&] { small_server(taken); });
  EXPECT_EQ(problem.where, "--metrics-port");
  EXPECT_TRUE(has(problem.got, std::to_string(port))) << problem.got;
  server.reset();
  EXPECT_FALSE(HttpClient(port).is_connected());
  EXPECT_EQ(small_server(taken)->port(), port);
}

}  // namespace
}  // namespace megacpp::http
