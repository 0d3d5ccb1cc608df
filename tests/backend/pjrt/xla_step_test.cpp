// SPDX-License-Identifier: Apache-2.0
// Steps on XLA's CPU plugin: the contract of all backends, and what the host asks of the devices between two logs.
#include <gtest/gtest.h>

#include <ostream>

#include "megacpp/machine/backends/backend_table.h"
#include "tests/backend/executable_contract.h"
#include "tests/support/cpu_plugin.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

class XlaStepTest : public CpuPluginTest {
 protected:
  const runtime::Backend& xla_ = runtime::backend_named("xla");
};

// As users run it.
recipe::Recipe optimized_on_plugin(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"backend=xla", std::string("xla.plugin=") + MEGACPP_PJRT_CPU_PLUGIN});
  return small_recipe(overrides);
}

// XLA is to compile fast here, not to make fast programs: a fourth of the time.
recipe::Recipe on_plugin(std::vector<std::string> overrides) {
  overrides.emplace_back(
      "xla.flags=[xla_backend_optimization_level=0,xla_llvm_disable_expensive_passes=true,"
      "raw:xla_cpu_use_fusion_emitters=false]");
  return optimized_on_plugin(std::move(overrides));
}

struct HostSyncs {
  std::vector<train::StepReport> reports;
  std::vector<int64_t> after_log, before_step;  // made until then
};

HostSyncs count_host_syncs(ContractRun& run) {
  HostSyncs counted;
  const auto syncs = [&] { return run.executable().counters().host_syncs; };
  counted.reports = run.train({.after_log = [&](const train::StepReport&) { counted.after_log.push_back(syncs()); },
                               .should_stop =
                                   [&] {
                                     counted.before_step.push_back(syncs());
                                     return false;
                                   }});
  return counted;
}

// Four experts, so tight that some requests are dropped.
std::vector<std::string> expert_overrides(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(),
                   {"train.steps=2", "model.pattern=AE", "model.feed_forward.experts=4", "model.feed_forward.top_k=2",
                    "model.feed_forward.routing=token_choice", "model.feed_forward.capacity_factor=1.0"});
  return overrides;
}

TEST_F(XlaStepTest, KeepsTheContract) {
  expect_state_contract(on_plugin({}), xla_);
  expect_step_contract(on_plugin({}), xla_);
}

TEST_F(XlaStepTest, BetweenTwoLogsTheHostNeverWaits) {
  ContractRun run(on_plugin({"train.steps=9", "train.log_every=4"}), xla_);
  const auto [reports, after_log, before_step] = count_host_syncs(run);
  ASSERT_EQ(reports.size(), 3U);  // steps 0, 4, 8
  ASSERT_EQ(before_step.size(), 9U);
  for (size_t step = 1; step <= 4; ++step) EXPECT_EQ(before_step[step], after_log[0]) << "step " << step;
  for (size_t step = 5; step <= 8; ++step) EXPECT_EQ(before_step[step], after_log[1]) << "step " << step;
  EXPECT_EQ(after_log[2] - after_log[1], 3) << "loss, cross-entropy and gradient norm";
  for (size_t log = 1; log < reports.size(); ++log) {
    EXPECT_EQ(reports[log].host_syncs, 0) << "fetching metrics is not counted, log " << log;
    EXPECT_TRUE(reports[log].step_seconds.empty()) << "nobody waits for a single step";
  }
}

void expect_one_compile(const std::vector<std::string>& overrides, const runtime::Backend& xla) {
  ContractRun run(on_plugin(overrides), xla);
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

TEST_F(XlaStepTest, LearningRateAndStepNeverCompileAgain) {
  expect_one_compile({"train.steps=6", "optimizer.warmup_steps=3"}, xla_);
  expect_one_compile({"train.steps=6", "optimizer.warmup_steps=3", "optimizer.name=muon", "optimizer.schedule=wsd"},
                     xla_);
}

TEST_F(XlaStepTest, LossesFollowTheCpuBackend) {
  const auto got = ContractRun(optimized_on_plugin({}), xla_).train();
  const auto wanted = ContractRun(small_recipe(), runtime::backend_named("cpu")).train();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t step = 0; step < got.size(); ++step)
    EXPECT_NEAR(got[step].loss.value(), wanted[step].loss.value(), 1e-4 * *wanted[step].loss) << "step " << step;
}

TEST_F(XlaStepTest, TheLoadOfExpertsIsFetchedOnceForAllBlocksOfALoop) {
  ContractRun run(on_plugin(expert_overrides({"model.depth=8", "train.steps=5", "train.log_every=4"})), xla_,
                  ContractRun::Fetches::experts);
  const auto [reports, after_log, before_step] = count_host_syncs(run);
  ASSERT_EQ(reports.size(), 2U);  // steps 0, 4
  EXPECT_EQ(reports[1].experts.size(), 4U);
  for (size_t step = 1; step <= 4; ++step) EXPECT_EQ(before_step[step], after_log[0]) << "step " << step;
  EXPECT_EQ(after_log[1] - after_log[0], 5 + 2) << "five metrics, and the requests and drops of four blocks";
}

TEST_F(XlaStepTest, StateAndSumsOfAStepCannotBeFetched) {
  const recipe::Recipe recipe = on_plugin({});
  const compile::Compiled compiled = compile::compile_training(
      plan::make_plan(recipe), runtime::target_on(xla_, recipe::run_request(recipe), ir::Mesh()));
  for (const std::string name : {"final_norm.weight", "grad.final_norm.weight"})
    problem_of(base::Code::E1505,
               [&] { runtime::load_on(xla_, recipe::run_request(recipe), compiled, {.fetches = {name}}); });
}

struct LoadRow {
  std::string name;
  std::vector<std::string> overrides;
  std::vector<std::string> placements = {"megacpp"};  // of collectives
};
void PrintTo(const LoadRow& row, std::ostream* out) { *out << row.name; }

class XlaExpertLoadTest : public CpuPluginTest, public testing::WithParamInterface<LoadRow> {};

// Requests are whole numbers, so both backends count the same to the last one.
TEST_P(XlaExpertLoadTest, IsWhatTheCpuBackendCounts) {
  const LoadRow& row = GetParam();
  const std::vector<std::string> overrides = expert_overrides(row.overrides);
  const auto wanted =
      ContractRun(small_recipe(overrides), runtime::backend_named("cpu"), ContractRun::Fetches::experts).train();
  ASSERT_GT(wanted.at(0).dropped, 0);
  for (const std::string& placement : row.placements) {
    SCOPED_TRACE(placement);
    std::vector<std::string> placed = overrides;
    placed.push_back("xla.placement=" + placement);
    const auto got =
        ContractRun(on_plugin(placed), runtime::backend_named("xla"), ContractRun::Fetches::experts).train();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t step = 0; step < wanted.size(); ++step) {
      ASSERT_EQ(got[step].experts.size(), wanted[step].experts.size());
      for (size_t i = 0; i < wanted[step].experts.size(); ++i) {
        SCOPED_TRACE(wanted[step].experts[i].block);
        EXPECT_EQ(got[step].experts[i].block, wanted[step].experts[i].block);
        EXPECT_EQ(got[step].experts[i].share, wanted[step].experts[i].share) << "step " << step;
        EXPECT_EQ(got[step].experts[i].dropped, wanted[step].experts[i].dropped) << "step " << step;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, XlaExpertLoadTest,
                         testing::Values(LoadRow{"OneBlock", {"model.depth=2", "train.micro_steps=1"}},
                                         LoadRow{"LoopAndBlocksOutside", {"model.pattern=AEE", "model.depth=8"}},
                                         LoadRow{"DataAndExpertParallel",
                                                 {"model.depth=6", "layout.data_parallel=2", "layout.expert_parallel=2",
                                                  "train.batch=4"},
                                                 {"megacpp", "xla"}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace megacpp::testing_support
