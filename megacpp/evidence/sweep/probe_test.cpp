// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/probe.h"

#include <gtest/gtest.h>

#include <csignal>

#include "megacpp/core/base/error.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::sweep {
namespace {

class ProbeTest : public testing::Test {
 protected:
  /// The recipe has a batch of 8; batches up to `most` fit, larger ones end with the status.
  Probe probe(int64_t most, int64_t most_times = 64, int status = 3) {
    const ProbeRequest request{.recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml"),
                               .key = "train.batch",
                               .times = 3,
                               .most_times = most_times,
                               .folder = folder_ / "probe"};
    const TrialRunner runner = [most, status](const TrialRequest& asked) {
      const bool fits = std::stoll(asked.overrides.front().substr(std::string("train.batch=").size())) <= most;
      return fits ? TrialEnd{} : TrialEnd{.status = status, .error = "E2001 plan exceeds the memory limit"};
    };
    return run_probe(request, runner, [](int64_t) {});
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(ProbeTest, TheLargestMultipleThatFitsIsFoundAndValidated) {
  const Probe found = probe(100);
  EXPECT_EQ(found.validated, 96);  // 12 times 8
  EXPECT_FALSE(found.reached_most);
  int64_t ran = 0;
  for (const ProbedValue& trial : found.trials) ran += trial.value == 96 && trial.status == 0;
  EXPECT_EQ(ran, 3);
}

TEST_F(ProbeTest, ItSaysWhenNothingFitsAndWhenEverythingDoes) {
  EXPECT_EQ(probe(4).validated, 0);
  const Probe all = probe(1 << 20, 4);
  EXPECT_EQ(all.validated, 32);
  EXPECT_TRUE(all.reached_most);
  EXPECT_EQ(probe(1 << 20, 6).validated, 48) << "six times the recipe's, which doubling does not meet";
}

TEST_F(ProbeTest, ATrialThatFailsForAnotherReasonEndsTheSearch) {
  const Probe found = probe(100, 64, 1);
  EXPECT_TRUE(found.failed);
  EXPECT_EQ(found.validated, 0) << "nothing is known of the largest";
  EXPECT_EQ(found.trials.size(), 5U) << "8, 16, 32, 64, 128";
  EXPECT_EQ(probe(100, 64, 128 + SIGKILL).validated, 96) << "a kill is what memory may come to";
}

}  // namespace
}  // namespace megacpp::sweep
