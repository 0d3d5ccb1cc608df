// SPDX-License-Identifier: Apache-2.0
// Steps on XLA's CPU plugin: the contract of all backends, and what the host asks of the devices between two logs.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/backend/executable_contract.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

class XlaStepTest : public CpuPluginTest {
 protected:
  const runtime::Backend& xla_ = runtime::backend_named("xla");
};

recipe::Recipe on_plugin(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"backend=xla", std::string("xla.plugin=") + MEGACPP_PJRT_CPU_PLUGIN});
  return small_recipe(overrides);
}

TEST_F(XlaStepTest, KeepsTheContract) {
  expect_state_contract(on_plugin({}), xla_);
  expect_step_contract(on_plugin({}), xla_);
}

TEST_F(XlaStepTest, BetweenTwoLogsTheHostNeverWaits) {
  ContractRun run(on_plugin({"train.steps=9", "train.log_every=4"}), xla_);
  std::vector<int64_t> after_log, before_step;
  const auto syncs = [&] { return run.executable().counters().host_syncs; };
  const auto reports = run.train({.after_log = [&](const train::StepReport&) { after_log.push_back(syncs()); },
                                  .should_stop =
                                      [&] {
                                        before_step.push_back(syncs());
                                        return false;
                                      }});
  ASSERT_EQ(reports.size(), 3U);  // steps 0, 4, 8
  ASSERT_EQ(before_step.size(), 9U);
  for (size_t step = 1; step <= 4; ++step) EXPECT_EQ(before_step[step], after_log[0]) << "step " << step;
  for (size_t step = 5; step <= 8; ++step) EXPECT_EQ(before_step[step], after_log[1]) << "step " << step;
  EXPECT_EQ(after_log[2] - after_log[1], 3) << "loss, cross-entropy and gradient norm";
}

TEST_F(XlaStepTest, LearningRateAndStepNeverCompileAgain) {
  ContractRun run(on_plugin({"train.steps=6", "optimizer.warmup_steps=3"}), xla_);
  const auto compiles = [&] {
    int64_t count = 0;
    for (const auto& [cause, times] : run.executable().counters().compiles) count += times;
    return count;
  };
  EXPECT_EQ(compiles(), 1);
  const auto reports = run.train();
  EXPECT_NE(reports[0].learning_rate, reports[2].learning_rate);
  EXPECT_EQ(compiles(), 1);
  EXPECT_EQ(run.executable().counters().executions, 6);
  EXPECT_EQ(run.executable().counters().cache_hits, 0);
}

TEST_F(XlaStepTest, LossesFollowTheCpuBackend) {
  const auto got = ContractRun(on_plugin({}), xla_).train();
  const auto wanted = ContractRun(small_recipe(), runtime::backend_named("cpu")).train();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t step = 0; step < got.size(); ++step)
    EXPECT_NEAR(got[step].loss, wanted[step].loss, 1e-4 * wanted[step].loss) << "step " << step;
}

TEST_F(XlaStepTest, TheLoadOfSingleExpertsIsNotMeasured) {
  const std::vector<std::string> experts = {"model.pattern=E", "model.depth=1", "model.feed_forward.experts=4",
                                            "model.feed_forward.top_k=2", "train.steps=1"};
  ContractRun run(on_plugin(experts), xla_);
  EXPECT_TRUE(run.train().at(0).experts.empty()) << "absent, not zeros";
  const std::vector<std::string> fetches = train::expert_fetches(run.compiled());
  EXPECT_EQ(fetches, (std::vector<std::string>{"expert_load.block00", "expert_dropped.block00"}));
  problem_of(base::Code::E1505,
             [&] { runtime::load_on(xla_, on_plugin(experts), run.compiled(), {.fetches = fetches}); });
}

}  // namespace
}  // namespace megacpp::testing_support
