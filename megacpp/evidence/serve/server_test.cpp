// SPDX-License-Identifier: Apache-2.0
// The dashboard on a real socket, with a client that sends whatever it is told to.
#include "megacpp/evidence/serve/server.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/http_client.h"
#include "tests/support/served_runs.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing_support::has;
using testing_support::HttpClient;
using testing_support::seeded_receipt;
using testing_support::status_of;
using testing_support::write_run;

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    write_run(folder_.path(), seeded_receipt({.name = "a"}));
    write_run(folder_.path(),
              seeded_receipt({.name = "b", .overrides = {"layout.tensor_parallel=2", "train.batch=4"}}));
    server_ = std::make_unique<Server>(Listen{}, runs_, no_catalog());
  }

  static launch::CatalogChoice no_catalog() {
    launch::CatalogChoice choice;
    choice.none = true;
    return choice;
  }
  std::string host() const { return fmt::format("127.0.0.1:{}", server_->port()); }
  std::string head(const std::string& line, const std::string& more = "") const {
    return testing_support::request_head(server_->port(), line, more);
  }
  std::string said(const std::string& sent) const { return testing_support::answer_to(server_->port(), sent); }
  std::string get(const std::string& target) const { return said(head("GET " + target)); }

  const testing_support::TemporaryFolder folder_;
  RunIndex runs_{folder_.path()};
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, ListsRunsAndShowsOne) {
  EXPECT_EQ(server_->url(), "http://" + host() + "/");
  const std::string list = get("/");
  EXPECT_EQ(status_of(list), 200);
  for (const char* part :
       {"Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff", "Cache-Control: no-store",
        "Connection: close", "Content-Type: text/html; charset=utf-8", "href=\"/runs/a\"", "2 of 2 runs"})
    EXPECT_TRUE(has(list, part)) << part << "\n" << list;
  EXPECT_TRUE(has(get("/runs/a"), "Memory by chip, family and time"));
  EXPECT_TRUE(has(get("/app.js"), "EventSource"));
  const std::string head_only = said(head("HEAD /runs/a"));
  EXPECT_EQ(status_of(head_only), 200);
  EXPECT_TRUE(head_only.ends_with("\r\n\r\n")) << head_only;
}

TEST_F(ServerTest, AComparisonOfTwoThingsAtOnceIsRefused) {
  EXPECT_TRUE(has(get("/compare?run=a&run=b"), "E4001 comparison is confounded: no winner is named"));
}

TEST_F(ServerTest, APageIsPushedWhatItsRunLogs) {
  HttpClient client(server_->port());
  client.send(head("GET /runs/a/events?stamp=" + *runs_.stamp_of("a")));
  ASSERT_TRUE(has(client.read_until("retry: 2000", milliseconds(10'000)), "Content-Type: text/event-stream"));
  EXPECT_FALSE(has(client.read_until("event:", milliseconds(100)), "event:")) << "nothing has changed";
  std::ofstream(folder_ / "a" / "log.jsonl", std::ios::app) << testing_support::log_lines(20, 23);
  EXPECT_TRUE(has(client.read_until("step 23, loss 5.28", milliseconds(10'000)), "event: update"));
  std::filesystem::remove_all(folder_ / "a");
  EXPECT_TRUE(has(client.read_until("event: gone", milliseconds(10'000)), "event: gone"));
  client.read_all();
  EXPECT_TRUE(client.is_ended());
}

TEST_F(ServerTest, StoppingEndsOpenPages) {
  HttpClient feed(server_->port()), silent(server_->port());
  feed.send(head("GET /events"));
  feed.read_until("event: update", milliseconds(10'000));
  const auto start = steady_clock::now();
  server_.reset();
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(3));
  feed.read_all();
  EXPECT_TRUE(feed.is_ended());
}

TEST_F(ServerTest, TooManyOpenPagesAreRefusedAndPlainOnesStillAnswered) {
  std::vector<std::unique_ptr<HttpClient>> open;
  for (size_t i = 0; i < kMostFeeds; ++i) {
    open.push_back(std::make_unique<HttpClient>(server_->port()));
    open.back()->send(head("GET /runs/a/events"));
    open.back()->read_until("retry:", milliseconds(10'000));
  }
  EXPECT_EQ(status_of(get("/runs/a/events")), 503);
  EXPECT_EQ(status_of(get("/")), 200);
  open.clear();
  int status = 0;
  for (int i = 0; i < 200 && status != 200; ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    HttpClient again(server_->port());
    again.send(head("GET /runs/a/events"));
    status = status_of(again.read_until("\r\n\r\n", milliseconds(10'000)));
  }
  EXPECT_EQ(status, 200) << "readers who left make room";
}

TEST_F(ServerTest, BadRequestsGetTheirStatus) {
  const std::vector<std::pair<std::string, int>> requests = {
      {head("GET /none"), 404},
      {head("POST /", "Content-Length: 4\r\n"), 405},
      {head("DELETE /runs/a"), 405},
      {head("OPTIONS *"), 405},
      {head("GET /%"), 400},
      {head("GET /runs/%00"), 400},
      {head("BREW /"), 405},
      {head("GET"), 400},
      {"GET / HTTP/9.9\r\n\r\n", 400},
      {"nonsense\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
      {"GET / HTTP/1.1\r\nHost: evil.example\r\nHost: " + host() + "\r\n\r\n", 400},
      {head("GET /", "Range: bytes=0-0,1-1,2-2\r\n"), 200},
  };
  for (const auto& [sent, status] : requests) {
    const std::string answer = said(sent);
    EXPECT_EQ(status_of(answer), status) << sent << answer;
    EXPECT_TRUE(has(answer, "Content-Security-Policy")) << sent;
  }
}

TEST_F(ServerTest, PathsOfEveryEncodingStayInside) {
  const std::string nul = std::string("GET /runs/a") + '\0' + " HTTP/1.1\r\nHost: " + host() + "\r\n\r\n";
  EXPECT_EQ(status_of(said(nul)), 400);
  for (const char* name : {"../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
                           "%252e%252e%252fetc%252fpasswd", "..\\..\\etc\\passwd", "..%5c..%5cetc%5cpasswd",
                           "%c0%ae%c0%ae%c0%afetc", "%e0%80%ae%e0%80%ae", "a%00", "..%00", "a/../../x", "..", "."}) {
    const std::string answer = get(std::string("/runs/") + name);
    EXPECT_TRUE(status_of(answer) == 404 || status_of(answer) == 400) << name << "\n" << answer;
    EXPECT_FALSE(has(answer, "root:")) << name;
  }
}

TEST_F(ServerTest, ATokenIsNeededWhereOneIsSet) {
  const std::string token = "0123456789abcdef";
  Listen listen;
  listen.token = token;
  server_ = std::make_unique<Server>(listen, runs_, no_catalog());
  EXPECT_TRUE(server_->url().ends_with("/?token=" + token)) << server_->url();
  EXPECT_EQ(status_of(get("/")), 401);
  EXPECT_EQ(status_of(get("/?token=0123456789abcdeF")), 401);
  const std::string first = get("/?token=" + token);
  EXPECT_EQ(status_of(first), 303);
  EXPECT_TRUE(has(first, "Location: /\r\n") && has(first, "Set-Cookie: megacpp_token=" + token)) << first;
  EXPECT_EQ(status_of(said(head("GET /", "Cookie: megacpp_token=" + token + "\r\n"))), 200);
  EXPECT_EQ(status_of(said(head("GET /", "Authorization: Bearer " + token + "\r\n"))), 200);
}

TEST_F(ServerTest, AnAddressThatCannotBeListenedOnIsSaid) {
  Listen taken;
  taken.port = server_->port();
  EXPECT_EQ(testing_support::error_of([&] { Server(taken, runs_, no_catalog()); }).code(), base::Code::E3004);
  Listen foreign;
  foreign.address = "203.0.113.1";
  foreign.token = "0123456789abcdef";
  EXPECT_EQ(testing_support::error_of([&] { Server(foreign, runs_, no_catalog()); }).code(), base::Code::E3004);
  Listen open;
  open.address = "0.0.0.0";
  EXPECT_EQ(testing_support::error_of([&] { Server(open, runs_, no_catalog()); }).code(), base::Code::E1007);
}

}  // namespace
}  // namespace megacpp::serve
