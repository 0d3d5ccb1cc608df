// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/child_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/errors.h"

namespace megacpp::base {
namespace {

using testing_support::problem_of;
using namespace std::chrono_literals;

TEST(ChildProcessTest, AnAnswerComesBackWhole) {
  EXPECT_EQ(run_in_child([] { return std::string("done"); }, 10s), "done");
  EXPECT_EQ(run_in_child([] { return std::string(); }, 10s), "");
  const std::string large(3'000'000, 'x');  // more than a pipe holds
  EXPECT_EQ(run_in_child([&] { return large; }, 10s), large);
}

TEST(ChildProcessTest, ItIsAProcessOfItsOwn) {
  int changed = 0;
  const std::string id = run_in_child(
      [&] {
        changed = 1;
        return std::to_string(::getpid());
      },
      10s);
  EXPECT_NE(id, std::to_string(::getpid()));
  EXPECT_EQ(changed, 0);
}

TEST(ChildProcessTest, AnErrorOfOursIsThrownHere) {
  const Problem problem = problem_of(Code::E2002, [] {
    run_in_child(
        []() -> std::string {
          raise(Code::E2002, {.where = "chip 3", .got = "33: G", .wanted = "less", .next = "shard more"});
        },
        10s);
  });
  EXPECT_EQ(problem.where, "chip 3");
  EXPECT_EQ(problem.got, "33: G");
  EXPECT_EQ(problem.wanted, "less");
  EXPECT_EQ(problem.next, "shard more");
}

TEST(ChildProcessTest, AnotherExceptionIsNamed) {
  const Problem problem =
      problem_of(Code::E3202, [] { run_in_child([]() -> std::string { throw std::runtime_error("odd"); }, 10s); });
  EXPECT_NE(problem.got.find("it threw: odd"), std::string::npos) << problem.got;
}

TEST(ChildProcessTest, AnAbortKeepsTheLastWords) {
  const Problem problem = problem_of(Code::E3202, [] {
    run_in_child(
        []() -> std::string {
          for (int i = 0; i < 10000; ++i) std::fprintf(stderr, "line %d\n", i);
          std::fprintf(stderr, "Check failed: topology\n");
          std::abort();
        },
        10s);
  });
  EXPECT_NE(problem.got.find("SIGABRT"), std::string::npos) << problem.got;
  EXPECT_NE(problem.got.find("line 9999\n          Check failed: topology"), std::string::npos) << problem.got;
  EXPECT_EQ(problem.got.find("line 0\n"), std::string::npos);
}

TEST(ChildProcessTest, ACrashIsNamedBySignal) {
  const Problem problem = problem_of(Code::E3202, [] {
    run_in_child(
        []() -> std::string {
          std::signal(SIGSEGV, SIG_DFL);
          std::raise(SIGSEGV);
          return "not reached";
        },
        10s);
  });
  EXPECT_NE(problem.got.find("SIGSEGV; it wrote nothing"), std::string::npos) << problem.got;
}

TEST(ChildProcessTest, AnExitWithoutAnAnswerIsAFailure) {
  const Problem problem = problem_of(Code::E3202, [] { run_in_child([]() -> std::string { ::_exit(3); }, 10s); });
  EXPECT_NE(problem.got.find("status 3"), std::string::npos) << problem.got;
  problem_of(Code::E3202, [] { run_in_child([]() -> std::string { ::_exit(0); }, 10s); });
}

TEST(ChildProcessTest, OneThatHangsIsKilledInTime) {
  const auto start = std::chrono::steady_clock::now();
  const Problem problem = problem_of(Code::E3202, [] {
    run_in_child(
        []() -> std::string {
          std::fprintf(stderr, "waiting for the metadata server\n");
          std::this_thread::sleep_for(60s);
          return "too late";
        },
        200ms);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
  EXPECT_NE(problem.got.find("no answer within 200 ms"), std::string::npos) << problem.got;
  EXPECT_NE(problem.got.find("metadata server"), std::string::npos) << problem.got;
}

TEST(ChildProcessTest, TheOneWhoWaitsIsToldHowLong) {
  std::vector<std::chrono::milliseconds> told;
  run_in_child(
      [] {
        std::this_thread::sleep_for(500ms);
        return std::string("done");
      },
      20s, {.every = 50ms, .say = [&told](std::chrono::milliseconds elapsed) { told.push_back(elapsed); }});
  ASSERT_GE(told.size(), 2u);
  EXPECT_GE(told[0], 50ms);
  EXPECT_GT(told[1], told[0]);
}

}  // namespace
}  // namespace megacpp::base
