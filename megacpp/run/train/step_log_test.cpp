// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/step_log.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/file.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/whole_report.h"

namespace megacpp::train {
namespace {

using testing_support::whole_report;

TEST(StepLogTest, ALineGivesItsReportBack) {
  const std::string line = line_of(whole_report());
  ASSERT_TRUE(line.ends_with("\n"));
  const std::optional<StepReport> read = report_of(line);
  ASSERT_TRUE(read);
  EXPECT_EQ(line_of(*read), line);
  EXPECT_EQ(read->step_seconds, whole_report().step_seconds);
  EXPECT_EQ(read->experts.at(0).dropped, whole_report().experts[0].dropped);
}

TEST(StepLogTest, WhatWasNotMeasuredIsNullAndStaysSo) {
  const std::string line = line_of({.step = 0, .steps = 1});
  EXPECT_NE(line.find(R"("loss":null)"), std::string::npos) << line;
  ASSERT_TRUE(report_of(line));
  EXPECT_FALSE(report_of(line)->loss);
}

// As versions before wrote them.
TEST(StepLogTest, LinesWithoutLaterMembersAreRead) {
  const std::optional<StepReport> read =
      report_of(R"({"step": 4, "loss": 2.5, "steps": 1, "seconds": 0.5, "tokens": 8})");
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->step_seconds.empty());
  EXPECT_FALSE(read->logged_at);
}

TEST(StepLogTest, NumbersThatNoRunWritesAreLeftOut) {
  ASSERT_TRUE(report_of(R"({"step": 4, "steps": 1, "seconds": 1e-9, "tokens": 8, "step_seconds": [0.5]})"));
  for (const char* line :
       {R"({"step": 4611686018427387904})", R"({"step": -1})", R"({"step": 4, "steps": -1})",
        R"({"step": 4, "tokens": 9223372036854775807})", R"({"step": 4, "seconds": 1e-310})",
        R"({"step": 4, "seconds": -1})", R"({"step": 4, "seconds": 1e300})", R"({"step": 4, "seconds": Infinity})",
        R"({"step": 4, "step_seconds": [0.5, 1e-310]})", R"({"step": 4, "host_syncs": -9223372036854775807})",
        R"({"step": 4, "experts": [{"block": "block01"}]})"})
    EXPECT_FALSE(report_of(line)) << line;
}

TEST(StepLogTest, ABlockOfExpertsHasSharesOrIsNoneOfALog) {
  EXPECT_TRUE(report_of(R"({"step": 4, "experts": [{"block": "b", "share": [0.5]}]})"));
  EXPECT_FALSE(report_of(R"({"step": 4, "experts": [{"block": "b", "share": []}]})"));
}

TEST(StepLogTest, PartsOfLinesAndOtherTextsAreCountedAndLeftOut) {
  const testing_support::TemporaryFolder folder;
  const std::string good = line_of(whole_report());
  base::write_file_atomically(folder / "log.jsonl", good + "{\"step\": 20, \"lo\n[]\n3\n{}\n{\"step\": \"x\"}\n" +
                                                        good + good.substr(0, good.size() / 2));
  const StepLog log = read_log(folder / "log.jsonl");
  EXPECT_EQ(log.reports.size(), 2U);
  EXPECT_EQ(log.broken_lines, 6) << "five lines of something else, and one without an end";
  EXPECT_TRUE(read_log(folder / "none.jsonl").reports.empty());
  EXPECT_EQ(read_log(folder / "none.jsonl").broken_lines, 0);
}

}  // namespace
}  // namespace megacpp::train
