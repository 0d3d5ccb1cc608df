// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/run_metrics.h"

#include <gtest/gtest.h>

#include "tests/support/text.h"
#include "tests/support/whole_report.h"

namespace megacpp::metrics {
namespace {

using testing_support::count_of;
using testing_support::has;
using testing_support::whole_report;

std::string text_of(const std::vector<RunMetrics>& runs) {
  std::vector<const RunMetrics*> all;
  for (const RunMetrics& run : runs) all.push_back(&run);
  return metrics_text(families_of(all));
}

TEST(RunMetricsTest, GaugesAreOfTheLastLogAndCountersOfAll) {
  std::vector<RunMetrics> runs(1, RunMetrics("tiny"));
  EXPECT_EQ(text_of(runs), "") << "nothing is logged yet";
  runs[0].add(whole_report());
  train::StepReport next = whole_report();
  next.step = 21;
  next.loss = 1.5;
  next.balance.reset();
  runs[0].add(next);
  const std::string text = text_of(runs);
  for (const char* line :
       {"megacpp_train_step{run=\"tiny\"} 21\n", "megacpp_train_loss{run=\"tiny\"} 1.5\n",
        "megacpp_train_tokens_total{run=\"tiny\"} 8192\n", "megacpp_train_seconds_total{run=\"tiny\"} 1.5\n",
        "megacpp_train_peak_memory_bytes{run=\"tiny\"} 1048576\n",
        "megacpp_train_expert_imbalance_ratio{run=\"tiny\",block=\"block03\"} 1.5\n",
        "megacpp_train_expert_share_ratio{run=\"tiny\",block=\"block03\",expert=\"1\"} 0.75\n",
        "megacpp_train_expert_dropped_requests_total{run=\"tiny\",block=\"block03\",expert=\"1\"} 6\n"})
    EXPECT_TRUE(has(text, line)) << line << text;
  EXPECT_FALSE(has(text, "megacpp_train_balance_loss")) << "the last log has none";
}

TEST(RunMetricsTest, AFamilyHasTheSamplesOfAllRuns) {
  std::vector<RunMetrics> runs = {RunMetrics("one"), RunMetrics("two")};
  for (RunMetrics& run : runs) run.add(whole_report());
  const std::string text = text_of(runs);
  EXPECT_EQ(count_of(text, "# TYPE megacpp_train_loss gauge\n"), 1U);
  EXPECT_TRUE(has(text, "megacpp_train_loss{run=\"one\"} 2.5\nmegacpp_train_loss{run=\"two\"} 2.5\n")) << text;
}

TEST(RunMetricsTest, ALogThatNamesEverNewExpertsIsBounded) {
  std::vector<RunMetrics> runs(1, RunMetrics("odd"));
  train::StepReport report = whole_report();
  report.experts.resize(1);
  report.experts[0].share.assign(kMostExperts / 2 + 1, 0.5);
  report.experts[0].dropped.assign(kMostExperts / 2 + 1, 1);
  for (const char* block : {"b", "c", "d"}) {
    report.experts[0].block = block;
    runs[0].add(report);
  }
  EXPECT_EQ(count_of(text_of(runs), "megacpp_train_expert_dropped_requests_total{"), kMostExperts);
}

}  // namespace
}  // namespace megacpp::metrics
