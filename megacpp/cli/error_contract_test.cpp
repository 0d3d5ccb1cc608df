// SPDX-License-Identifier: Apache-2.0
// The judge of the error contract itself: what keeps it passes, and each way to break it is found.
#include "tests/support/error_contract.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tests/support/child_command.h"

namespace megacpp::testing_support {
namespace {

const std::string kError =
    "note\nerror E1001 unknown recipe key\n  where:  a.yaml:3\n  got:    hiden\n  wanted: hidden\n  next:   rename "
    "it\n";
const std::string kJson =
    R"({"error": {"code": "E1001", "title": "unknown recipe key", "where": "a.yaml:3", "got": "hiden", )"
    R"("wanted": "hidden", "next": "rename it", "exit_status": 2}})";

std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), other);
}

std::string without(const std::string& text, const std::string& part) { return with(text, part, ""); }

TEST(ErrorContractTest, WhatKeepsItPasses) {
  for (const Ending& ending :
       {Ending{.status = 0, .err = "all is well\n"}, Ending{.status = 2, .err = kError},
        Ending{.status = 0, .json = true, .out = "{}"}, Ending{.status = 2, .json = true, .out = kJson, .err = kError},
        Ending{.status = base::kInterruptedStatus, .err = "stopped after 3 steps\n"},
        Ending{.status = base::kInterruptedStatus, .json = true}, Ending{.status = 2, .err_unseen = true},
        Ending{.status = 2, .json = true, .err_unseen = true, .out = kJson}})
    EXPECT_EQ(breaches_of(ending), std::vector<std::string>()) << ending.err;
}

TEST(ErrorContractTest, APartMayHaveSeveralLines) {
  std::string err = kError;
  err.insert(err.find("  wanted"), "          and more\n");
  EXPECT_EQ(breaches_of(Ending{.status = 2, .err = err}), std::vector<std::string>());
}

TEST(ErrorContractTest, EachBreachIsFound) {
  const std::string json = R"({"error": {"code": "E1002"}})";
  const std::pair<Ending, std::string> cases[] = {
      {{.hung = true}, "hangs"},
      {{.signal = 11}, "signal 11"},
      {{.status = 2, .err = ""}, "with 0 errors"},
      {{.status = 1, .err = "error: bad\n"}, "with 0 errors"},
      {{.status = 2, .err = kError + kError}, "with 2 errors"},
      {{.status = 0, .err = kError}, "status 0 with"},
      {{.status = 3, .err = kError}, "is not that of E1001"},
      {{.status = 2, .err = without(kError, " unknown recipe key")}, "the title"},
      {{.status = 2, .err = without(kError, "  where:  a.yaml:3\n")}, "no 'where'"},
      {{.status = 2, .err = without(kError, "hiden")}, "no 'got'"},
      {{.status = 2, .err = without(kError, "  wanted: hidden\n")}, "no 'wanted'"},
      {{.status = 2, .err = without(kError, "  next:   rename it\n")}, "no 'next'"},
      {{.status = 2, .err = "error E1999 x\n  where:  a\n"}, "not documented"},
      {{.status = 70, .err = "error E9001 invariant violated\n  where:  a\n"}, "a defect"},
      {{.status = 0, .err = "\xff\n"}, "no UTF-8"},
      {{.status = 0, .err = std::string("a\0b\n", 4)}, "no UTF-8"},
      {{.status = 0, .err = "run\x1b[2J\n"}, "stderr has control characters"},
      {{.status = 0, .json = true, .out = "{\"a\": \"\x7f\"}"}, "stdout has control characters"},
      {{.status = 0, .json = true, .out = ""}, "not one JSON value"},
      {{.status = base::kInterruptedStatus, .json = true, .out = "{"}, "not one JSON value"},
      {{.status = 0, .json = true, .out = "{}{}"}, "not one JSON value"},
      {{.status = 0, .json = true, .out = "{\"a\": \"\xff\"}"}, "not one JSON value"},
      {{.status = 0, .json = true, .out = "[]"}, "no object"},
      {{.status = 0, .json = true, .out = "{\"a\": NaN}"}, "a bare NaN"},
      {{.status = 0, .json = true, .out = kJson}, "an error that stderr does not"},
      {{.status = 2, .json = true, .out = "{}", .err = kError}, "says no error"},
      {{.status = 2, .json = true, .out = json, .err = kError}, "says code 'E1002'"},
      {{.status = 2, .json = true, .out = json, .err = kError}, "under next"},
      {{.status = 2, .json = true, .out = json, .err = kError}, "says title ''"},
      {{.status = 2, .json = true, .out = json, .err = kError}, "says exit_status nowhere"},
      {{.status = 2, .json = true, .out = with(kJson, "2}", "3}"), .err = kError}, "says exit_status 3"},
      {{.status = 2, .json = true, .out = with(kJson, "recipe", "model"), .err = kError}, "says title 'unknown model"},
      {{.status = 70, .err_unseen = true}, "status 70"},
      {{.status = 5, .err_unseen = true}, "status 5"},
      {{.signal = 6, .err_unseen = true}, "signal 6"},
      {{.status = 2, .json = true, .err_unseen = true, .out = "{}"}, "says no error"},
      {{.status = 0, .json = true, .err_unseen = true, .out = kJson}, "an error that stderr does not"},
  };
  for (const auto& [ending, said] : cases) {
    bool found = false;
    for (const std::string& breach : breaches_of(ending)) found |= breach.find(said) != std::string::npos;
    EXPECT_TRUE(found) << said << "\n" << ending.err << ending.out;
  }
}

TEST(ErrorContractTest, AnErrorIsJudgedBeforeItIsPrinted) {
  const base::Problem whole{.where = "a", .got = "b\xff", .wanted = "c", .next = "d"};
  EXPECT_TRUE(breaches_of(base::Error(base::Code::E1001, whole)).empty());
  EXPECT_FALSE(breaches_of(base::Error(base::Code::E9001, whole)).empty());
  EXPECT_FALSE(breaches_of(base::Error(base::Code::E1001, {.where = "a", .got = "b", .next = "d"})).empty());
}

TEST(ErrorContractTest, AProcessIsJudgedWhereItRuns) {
  EXPECT_NONFATAL_FAILURE(run_child({.words = {"ops"}, .before = "kill -TERM $$;"}), "signal 15 ended it");
  EXPECT_NONFATAL_FAILURE(run_child({.words = {"ops"}, .before = "exit 7;"}), "status 7 with 0 errors");
  EXPECT_NONFATAL_FAILURE(run_child({.words = {"ops"}, .err = "/dev/null", .before = "exit 7;"}), "status 7 is not");
  EXPECT_EQ(run_child({.words = {"ops"}, .before = "kill -KILL $$;", .may_be_killed = true}).signal, SIGKILL);
}

}  // namespace
}  // namespace megacpp::testing_support
