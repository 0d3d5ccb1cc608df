// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/serve/answer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/evidence/metrics/prometheus.h"
#include "megacpp/evidence/serve/compare_page.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/run/launch/run_directory.h"
#include "tests/support/served_runs.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/support/well_formed.h"

namespace megacpp::serve {
namespace {

using testing_support::has;
using testing_support::seeded_receipt;
using testing_support::write_run;

constexpr const char* kHost = "127.0.0.1:8077";
constexpr const char* kSecret = "0123456789abcdef";

std::string header_of(const Answer& made, const std::string& name) {
  for (const auto& [key, value] : made.headers)
    if (key == name) return value;
  return "";
}

class AnswerTest : public testing::Test {
 protected:
  Answer get(const std::string& target) { return answer({.method = "GET", .target = target, .hosts = {kHost}}, site_); }

  void write_two_runs() {
    write_run(folder_.path(), seeded_receipt({.name = "a"}));
    write_run(folder_.path(), seeded_receipt({.name = "b", .arithmetic = 0.16, .seed = 2}));
  }

  const testing_support::TemporaryFolder folder_;
  const testing_support::TemporaryFolder elsewhere_;
  RunIndex runs_{folder_.path()};
  Site site_{.runs = runs_,
             .catalog = {.file = (elsewhere_ / "catalog.sqlite").string()},
             .access = http::access_for("127.0.0.1", 8077, "")};
};

TEST_F(AnswerTest, EveryPageIsWholeAndLoadsNothingFromElsewhere) {
  write_two_runs();
  for (const char* target : {"/", "/?q=a&ending=finished&page=9", "/runs/a", "/compare", "/compare?run=a&run=b",
                             "/compare?run=a&run=a", "/ceilings", "/catalog", "/none"}) {
    const Answer made = get(target);
    EXPECT_EQ(made.status, std::string(target) == "/none" ? 404 : 200) << target;
    EXPECT_EQ(testing_support::unbalanced_tag(made.body), "") << target;
    for (const char* part : {"http:", "https:", "style=", "<iframe", "onclick"})
      EXPECT_FALSE(has(made.body, part)) << part;
    EXPECT_EQ(testing_support::count_of(made.body, "<script"), 1U);
    EXPECT_TRUE(has(made.body, "<script src=\"/app.js\"") && has(made.body, "<main id=\"main\">")) << target;
  }
}

TEST_F(AnswerTest, EveryAnswerHasTheHeadersThatProtectIt) {
  write_two_runs();
  for (const char* target :
       {"/", "/runs/a", "/events", "/runs/a/events", "/style.css", "/app.js", "/icon.svg", "/metrics", "/none", "/%"}) {
    const Answer made = get(target);
    const std::string policy = header_of(made, "Content-Security-Policy");
    EXPECT_TRUE(has(policy, "default-src 'none'") && has(policy, "script-src 'self'")) << target;
    EXPECT_FALSE(has(policy, "unsafe")) << policy;
    EXPECT_EQ(header_of(made, "X-Content-Type-Options"), "nosniff") << target;
    EXPECT_EQ(header_of(made, "Cache-Control"), "no-store") << target;
    EXPECT_EQ(header_of(made, "X-Frame-Options"), "DENY") << target;
  }
  EXPECT_TRUE(has(get("/style.css").body, "prefers-color-scheme: dark"));
  EXPECT_TRUE(has(get("/app.js").body, "new EventSource"));
  EXPECT_EQ(get("/app.js").type, "text/javascript; charset=utf-8");
}

TEST_F(AnswerTest, WithoutRunsThePageSaysHowToGetOne) {
  const Answer made = get("/");
  EXPECT_EQ(made.status, 200);
  EXPECT_TRUE(has(made.body, "There are no runs in") && has(made.body, "megacpp train recipes/")) << made.body;
  EXPECT_TRUE(has(get("/ceilings").body, "No run has made two steps yet"));
  EXPECT_TRUE(has(get("/catalog").body, "there is no catalog yet")) << get("/catalog").body;
}

TEST_F(AnswerTest, TheListIsFilteredAndPaged) {
  write_two_runs();
  for (int i = 0; i < 120; ++i) {
    const std::string name = "many-" + std::to_string(i);
    base::make_folder(folder_ / name);
    base::write_file_atomically(folder_ / name / "recipe.yaml", "name: x\n");
    base::write_file_atomically(folder_ / name / "receipt.json", "broken");
  }
  EXPECT_TRUE(has(get("/").body, ">older</a>")) << "122 runs are two pages";
  EXPECT_TRUE(has(get("/?page=2").body, ">newer</a>"));
  const std::string some = get("/?q=MANY-11").body;
  EXPECT_TRUE(has(some, "11 of 122 runs") && has(some, "/runs/many-119") && has(some, "E1801")) << some;
  const std::string finished = get("/?ending=finished").body;
  EXPECT_TRUE(has(finished, "2 of 122 runs") && has(finished, "selected=\"selected\">finished")) << finished;
  const std::string hostile = get("/?q=%3Cscript%3Ealert(1)%3C/script%3E&ending=%22%3E&page=-1").body;
  EXPECT_FALSE(has(hostile, "<script>alert")) << hostile;
  EXPECT_EQ(testing_support::unbalanced_tag(hostile), "");
}

TEST_F(AnswerTest, ASweepStandsAboveItsRuns) {
  write_run(folder_ / "s" / "runs", seeded_receipt({.name = "1-2-1"}));
  base::write_file_atomically(folder_ / "s" / "recipe.yaml", "name: x\n");
  base::write_file_atomically(folder_ / "s" / "sweep.json",
                              R"({"axis": "train.batch", "values": ["2", "4"], "repeats": 1, "trials": []})");
  const std::string page = get("/").body;
  EXPECT_TRUE(has(page, "1 of 1 runs")) << "a sweep is none: " << page;
  const size_t sweep = page.find("train.batch=2,4"), run = page.find("href=\"/runs/s%2Fruns%2F1-2-1\"");
  EXPECT_LT(sweep, run) << page;
  EXPECT_LT(run, page.size()) << page;
  EXPECT_TRUE(has(get("/runs/s%2Fruns%2F1-2-1").body, "205 of 205 steps"));
  EXPECT_EQ(get("/runs/s").status, 404);
  std::filesystem::remove_all(folder_ / "s" / "runs");
  EXPECT_TRUE(has(get("/").body, "train.batch=2,4")) << "one that has no runs yet";
}

TEST_F(AnswerTest, ARunHasItsChartsItsMemoryAndItsAnswers) {
  write_two_runs();
  const std::string page = get("/runs/a").body;
  for (const char* part : {"comparable", "205 of 205 steps", "<figcaption>loss over steps</figcaption>", "Five answers",
                           "time of a steady step", "Memory by chip, family and time", "weight", "all_gather",
                           "Recipe, resolved", "data-events=\"/runs/a/events?stamp="})
    EXPECT_TRUE(has(page, part)) << part;
  base::write_file_atomically(folder_ / "b" / "receipt.json", "{");
  EXPECT_TRUE(has(get("/runs/b").body, "E1801"));
  EXPECT_TRUE(has(get("/compare?run=a&run=b").body, "E1801"));
}

TEST_F(AnswerTest, ARunThatGoesOnSaysHowLongItTakes) {
  write_run(folder_.path(), testing_support::unended(seeded_receipt({.name = "a"})), 5);
  EXPECT_TRUE(has(get("/runs/a").body, "Verdict: not comparable: ended early")) << get("/runs/a").body;
  EXPECT_TRUE(has(get("/runs/a").body, "<p data-ended=\"\">")) << "nothing of it is live: " << get("/runs/a").body;
  EXPECT_TRUE(has(get("/app.js").body, "[data-ended]"));
  const launch::RunDirectory owner = launch::RunDirectory::open(folder_ / "a");
  const std::string page = get("/runs/a").body;
  EXPECT_TRUE(has(page, "running") && has(page, "step 5, loss 5.46") && has(page, " left</p>")) << page;
  EXPECT_FALSE(has(page, "data-ended")) << page;
}

TEST_F(AnswerTest, AComparisonNamesItsResultOrRefuses) {
  write_run(folder_.path(), seeded_receipt({.name = "one"}));
  write_run(folder_.path(),
            seeded_receipt({.name = "slow", .overrides = {"layout.tensor_parallel=2"}, .arithmetic = 0.16}));
  write_run(folder_.path(),
            seeded_receipt({.name = "other", .overrides = {"layout.tensor_parallel=2", "train.batch=4"}}));
  const std::string found = get("/compare?run=one&run=slow").body;
  EXPECT_TRUE(has(found, "slow takes ") && has(found, "Cause: ") && has(found, "Seconds of a step by part.")) << found;
  const std::string refused = get("/compare?run=one&run=other").body;
  EXPECT_TRUE(has(refused, "E4001 comparison is confounded: no winner is named")) << refused;
  EXPECT_TRUE(has(refused, "layout.tensor_parallel") && has(refused, "train.batch")) << refused;
  EXPECT_FALSE(has(refused, "Cause: "));
  EXPECT_EQ(get("/compare?run=one&run=none").status, 404);
  std::string many = "/compare?run=one";
  for (size_t i = 0; i < kMostCompared; ++i) many += "&run=one";
  EXPECT_EQ(get(many).status, 400);
}

TEST_F(AnswerTest, CeilingsAndTheCatalogAreShown) {
  for (const char* name : {"a", "b", "c"}) write_run(folder_.path(), seeded_receipt({.name = name}));
  EXPECT_TRUE(has(get("/ceilings").body, "8 x 256 (3 runs)")) << get("/ceilings").body;
  {
    catalog::Catalog catalog = catalog::Catalog::open(elsewhere_ / "catalog.sqlite");
    catalog::Outcome outcome;
    outcome.signature.model = "a <model>";
    outcome.at = "2026-11-16T12:00:00Z";
    outcome.predicted_bytes = 1 << 20;
    catalog.record(outcome);
  }
  const std::string page = get("/catalog").body;
  EXPECT_TRUE(has(page, "a &lt;model&gt;") && has(page, "fits") && has(page, "1.00 MiB")) << page;
  base::write_file_atomically(elsewhere_ / "catalog.sqlite", "no database");
  EXPECT_EQ(get("/catalog").status, 200);
  EXPECT_TRUE(has(get("/catalog").body, "The catalog is not shown: E1701")) << get("/catalog").body;
}

TEST_F(AnswerTest, MetricsOfAllRunsAreThereForPrometheus) {
  EXPECT_TRUE(has(get("/metrics").body, "\nmegacpp_serve_runs 0\n")) << get("/metrics").body;
  write_two_runs();
  const Answer made = get("/metrics");
  EXPECT_EQ(made.type, metrics::kPrometheusType);
  for (const char* line : {"megacpp_train_step{run=\"a\"} 19\n", "megacpp_train_step{run=\"b\"} 19\n",
                           "megacpp_serve_runs 2\n", "megacpp_serve_runs_left_out 0\n"})
    EXPECT_TRUE(has(made.body, line)) << line << made.body;
  std::ofstream(folder_ / "a" / "log.jsonl", std::ios::app) << testing_support::log_lines(20, 25);
  std::filesystem::remove_all(folder_ / "b");
  const std::string later = get("/metrics").body;
  EXPECT_TRUE(has(later, "megacpp_train_step{run=\"a\"} 24\n") && !has(later, "run=\"b\"")) << later;
  EXPECT_TRUE(has(later, "megacpp_train_steps_total{run=\"a\"} 25\n")) << "every line once: " << later;
}

TEST_F(AnswerTest, MetricsAreOfTheRunsThatLoggedLast) {
  for (size_t i = 0; i < kMostMetricRuns + 3; ++i) {
    const std::filesystem::path run = folder_ / ("run-" + std::to_string(i));
    base::make_folder(run);
    base::write_file_atomically(run / "recipe.yaml", "name: x\n");
    base::write_file_atomically(run / "log.jsonl", "{\"step\": 1, \"loss\": 2}\n{\"ste");
    const auto now = std::filesystem::last_write_time(run / "log.jsonl");
    std::filesystem::last_write_time(run / "log.jsonl", now - std::chrono::hours(i));
  }
  const std::string text = get("/metrics").body;
  EXPECT_EQ(testing_support::count_of(text, "megacpp_train_loss{run="), kMostMetricRuns);
  EXPECT_TRUE(has(text, "megacpp_serve_runs_left_out 3\n") && !has(text, "\"run-64\"")) << text;
}

TEST_F(AnswerTest, OnlyReadingIsAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "", "get"}) {
    const Answer made = answer({.method = method, .target = "/", .hosts = {kHost}}, site_);
    EXPECT_EQ(made.status, 405) << method;
    EXPECT_EQ(header_of(made, "Allow"), "GET, HEAD");
  }
  EXPECT_EQ(answer({.method = "HEAD", .target = "/", .hosts = {kHost}}, site_).status, 200);
}

TEST_F(AnswerTest, NothingOutsideTheFolderIsReached) {
  write_two_runs();
  base::write_file_atomically(elsewhere_ / "recipe.yaml", "name: secret\n");
  std::filesystem::create_symlink(elsewhere_.path(), folder_ / "link");
  const std::string outside = elsewhere_.path().filename().string();
  const std::vector<std::string> names = {"..",
                                          "%2e%2e",
                                          "%2E%2E",
                                          "..%2f" + outside,
                                          "%2e%2e%2f" + outside,
                                          "..%5c" + outside,
                                          "%252e%252e%252f" + outside,
                                          "%252e%252e",
                                          "%c0%ae%c0%ae%c0%af" + outside,
                                          "%e0%80%ae%e0%80%ae",
                                          "..%00",
                                          "a%00",
                                          "a%2f..%2fb",
                                          "a/../b",
                                          "a/..",
                                          ".",
                                          "%2e",
                                          "a%2f",
                                          "a%5c..%5cb",
                                          "..;/" + outside,
                                          "%uff0e%uff0e",
                                          "link",
                                          "link%2frecipe.yaml",
                                          "a/recipe.yaml",
                                          "a/receipt.json",
                                          "a%2frecipe.yaml",
                                          "%2fetc%2fpasswd",
                                          "/etc/passwd",
                                          "~",
                                          "*"};
  for (const std::string& name : names)
    for (const char* end : {"", "/events"}) {
      const Answer made = get("/runs/" + name + end);
      EXPECT_TRUE(made.status == 404 || made.status == 400) << name << " " << made.status;
      EXPECT_FALSE(made.feed) << name;
      EXPECT_FALSE(has(made.body, "secret")) << name;
    }
  for (const char* target :
       {"/../etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/runs", "/runs/", "/style.css/..", "etc/passwd",
        "", "\\", "/\\..\\..", "/compare?run=../x&run=a", "/compare?run=a&run=%2e%2e%2fx"}) {
    const int status = get(target).status;
    EXPECT_TRUE(status == 404 || status == 400) << target << " " << status;
  }
}

TEST_F(AnswerTest, AnotherHostIsRefused) {
  for (const char* host : {"evil.example", "evil.example:8077", "127.0.0.1:1", ""})
    EXPECT_EQ(answer({.method = "GET", .target = "/", .hosts = {host}}, site_).status, 403) << host;
  EXPECT_EQ(answer({.method = "GET", .target = "/"}, site_).status, 400);
  EXPECT_EQ(answer({.method = "GET", .target = "/", .hosts = {kHost, kHost}}, site_).status, 400);
}

TEST_F(AnswerTest, WithATokenNothingIsReadWithoutIt) {
  write_two_runs();
  site_.access = http::access_for("0.0.0.0", 8077, kSecret);
  for (const char* target :
       {"/", "/runs/a", "/runs/none", "/events", "/style.css", "/?token=0123456789abcdeF", "/?token="}) {
    const Answer made = get(target);
    EXPECT_EQ(made.status, 401) << target;
    EXPECT_FALSE(has(made.body, kSecret));
  }
  const Answer redirect = get("/runs/a?token=" + std::string(kSecret) + "&page=2");
  EXPECT_EQ(redirect.status, 303);
  EXPECT_EQ(header_of(redirect, "Location"), "/runs/a?page=2");
  EXPECT_EQ(header_of(redirect, "Set-Cookie"),
            "megacpp_token=" + std::string(kSecret) + "; Path=/; HttpOnly; SameSite=Strict");
  const http::Request with_cookie{.method = "GET",
                                  .target = "/runs/a",
                                  .hosts = {"tpu-7.example:8077"},
                                  .cookies = {"megacpp_token=" + std::string(kSecret)}};
  EXPECT_EQ(answer(with_cookie, site_).status, 200);
}

TEST_F(AnswerTest, FeedsHaveWhatChangedSinceThePage) {
  write_two_runs();
  const std::string page = get("/runs/a").body;
  const size_t at = page.find("/runs/a/events?stamp=");
  ASSERT_NE(at, std::string::npos);
  std::optional<Feed> feed = get(page.substr(at, page.find('"', at) - at)).feed;
  ASSERT_TRUE(feed);
  EXPECT_FALSE(next_event(*feed, runs_)) << "the page has all of it";
  std::ofstream(folder_ / "a" / "log.jsonl", std::ios::app) << testing_support::log_lines(20, 25) << "{\"step\": 2";
  const std::optional<http::Event> event = next_event(*feed, runs_);
  ASSERT_TRUE(event);
  EXPECT_FALSE(event->is_last);
  ASSERT_EQ(event->text.rfind("event: update\ndata: {", 0), 0U);
  EXPECT_EQ(testing_support::count_of(event->text, "\n"), 3U) << "one line of data";
  const base::Json parts =
      base::parse_json(event->text.substr(20, event->text.size() - 22), base::Code::E9001, "event");
  EXPECT_TRUE(has(parts.at("progress").get<std::string>(), "step 25, loss 5.26"));
  EXPECT_TRUE(has(parts.at("charts").get<std::string>(), "<polyline"));
  EXPECT_FALSE(next_event(*feed, runs_)) << "once";
  std::filesystem::remove_all(folder_ / "a");
  EXPECT_TRUE(next_event(*feed, runs_)->is_last);
}

TEST_F(AnswerTest, TheFeedOfTheListKeepsItsFilter) {
  for (const char* name : {"first", "zeta-1"}) write_run(folder_.path(), seeded_receipt({.name = name}));
  std::optional<Feed> feed = get("/events?q=zeta&ending=&page=1&stamp=").feed;
  ASSERT_TRUE(feed);
  const std::optional<http::Event> event = next_event(*feed, runs_);
  ASSERT_TRUE(event);
  EXPECT_TRUE(has(event->text, "1 of 2 runs") && !has(event->text, "/runs/first")) << event->text;
  EXPECT_FALSE(next_event(*feed, runs_));
  write_run(folder_.path(), seeded_receipt({.name = "zeta-2"}));
  EXPECT_TRUE(has(next_event(*feed, runs_)->text, "2 of 3 runs"));
}

}  // namespace
}  // namespace megacpp::serve
