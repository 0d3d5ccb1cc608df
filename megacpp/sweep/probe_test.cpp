// SPDX-License-Identifier: Apache-2.0
#include "megacpp/sweep/probe.h"

#include <gtest/gtest.h>

#include <string>

#include "megacpp/base/error.h"
#include "megacpp/recipe/parse.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::sweep {
namespace {

class ProbeTest : public testing::Test {
 protected:
  /// The recipe has a batch of 8; batches up to `most` fit.
  Probe probe(int64_t most, int64_t most_times = 64) {
    const ProbeRequest request{.recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml"),
                               .key = "train.batch",
                               .times = 3,
                               .most_times = most_times,
                               .folder = folder_ / "probe"};
    const TrialRunner runner = [most](const TrialRequest& asked) {
      const bool fits = std::stoll(asked.overrides.front().substr(std::string("train.batch=").size())) <= most;
      return fits ? TrialEnd{} : TrialEnd{.status = 3, .error = "E2001 plan exceeds the memory limit"};
    };
    return run_probe(request, runner, [](int64_t) {});
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(ProbeTest, TheLargestMultipleThatFitsIsFoundAndValidated) {
  const Probe found = probe(100);
  EXPECT_EQ(found.validated, 96);  // 12 times 8
  EXPECT_FALSE(found.is_bounded);
  int64_t ran = 0;
  for (const ProbedValue& trial : found.trials) ran += trial.value == 96 && trial.status == 0;
  EXPECT_EQ(ran, 3);
}

TEST_F(ProbeTest, ItSaysWhenNothingFitsAndWhenEverythingDoes) {
  EXPECT_EQ(probe(4).validated, 0);
  const Probe all = probe(1 << 20, 4);
  EXPECT_EQ(all.validated, 32);
  EXPECT_TRUE(all.is_bounded);
}

}  // namespace
}  // namespace megacpp::sweep
