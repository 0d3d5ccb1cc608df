// SPDX-License-Identifier: Apache-2.0
#include "tests/backend/executable_contract.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/program/recipe/schema.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

TEST(BackendListTest, TheRecipesKeyHasExactlyTheBackendsThereAre) {
  std::vector<std::string> names;
  for (const runtime::Backend& backend : runtime::all_backends()) {
    names.push_back(backend.name);
    EXPECT_TRUE(backend.target && backend.load && backend.usable && backend.threads && backend.free_bytes &&
                backend.find_hardware && backend.identity && backend.settings)
        << backend.name;
    EXPECT_FALSE(backend.runs_on.empty()) << backend.name;
    const bool on_hosts = std::ranges::count(backend.runs_on, hw::ChipKind::host) > 0;
    for (const bool there :
         {bool(backend.host_rates.kept), bool(backend.host_rates.renewed), bool(backend.host_rates.file)})
      EXPECT_EQ(there, on_hosts) << backend.name;
    if (!backend.estimates_with.empty()) runtime::backend_named(backend.estimates_with);
    for (const std::string& name : backend.transports)
      EXPECT_EQ(std::ranges::count(collectives::all_transports(), name,
                                   [](const collectives::Transport& each) { return each.properties.name; }),
                1)
          << name;
    EXPECT_EQ(&runtime::backend_named(backend.name), &backend);
  }
  EXPECT_EQ(recipe::find_key("backend")->range.choices, names);
}

TEST(BackendListTest, AnUnknownBackendIsAnErrorWithThoseThereAre) {
  const base::Problem problem = problem_of(base::Code::E1003, [] { runtime::backend_named("gpu"); });
  EXPECT_EQ(problem.wanted, "one of cpu, xla, cuda");
}

TEST(BackendListTest, WhatABackendCannotRunIsRefusedWithItsReason) {
  const recipe::Recipe recipe = small_recipe({"backend=xla", "layout.pipeline_parallel=2"});
  const base::Problem problem = problem_of(base::Code::E1505, [&] { runtime::backend_that_runs(recipe); });
  EXPECT_EQ(problem.where, "layout.pipeline_parallel: 2");
  EXPECT_NE(problem.next.find("set layout.pipeline_parallel: 1"), std::string::npos) << problem.next;
}

TEST(ExecutableContractTest, StateOnTheCpuBackend) {
  expect_state_contract(small_recipe(), runtime::backend_named("cpu"));
}

TEST(ExecutableContractTest, StepsOnTheCpuBackend) {
  expect_step_contract(small_recipe(), runtime::backend_named("cpu"));
}

TEST(ExecutableContractTest, MetricsAreThoseOfTheLoggedStepsAlone) {
  const runtime::Backend& cpu = runtime::backend_named("cpu");
  const std::vector<train::StepReport> every = ContractRun(small_recipe({"train.steps=8"}), cpu).train();
  const std::vector<train::StepReport> third =
      ContractRun(small_recipe({"train.steps=8", "train.log_every=3"}), cpu).train();
  ASSERT_EQ(every.size(), 8U);
  std::vector<int64_t> steps, windows;
  for (const train::StepReport& report : third) {
    steps.push_back(report.step);
    windows.push_back(report.steps);
    EXPECT_EQ(report.loss, every[static_cast<size_t>(report.step)].loss) << "to the bit";
    EXPECT_EQ(report.tokens, report.steps * 32);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 3, 6, 7}));
  EXPECT_EQ(windows, (std::vector<int64_t>{1, 3, 3, 1}));
}

TEST(ExecutableContractTest, ARunThatIsStoppedEndsWithItsLastStep) {
  ContractRun run(small_recipe({"train.steps=9", "train.log_every=9"}), runtime::backend_named("cpu"));
  int64_t asked = 0;
  const auto reports = run.train({.should_stop = [&] { return ++asked > 4; }});
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports.back().step, 3);
  EXPECT_EQ(train::steps_in(reports), 4);
}

TEST(ExecutableContractTest, ALossThatIsNotFiniteIsFoundAtTheNextLogWithTheStepsItMayBeFrom) {
  ContractRun run(small_recipe({"train.steps=9", "train.log_every=4", "optimizer.warmup_steps=0", "optimizer.lr=1e30"}),
                  runtime::backend_named("cpu"));
  const base::Problem problem = problem_of(base::Code::E1302, [&] { run.train(); });
  EXPECT_EQ(problem.where, "in steps 1 to 4");
}

}  // namespace
}  // namespace megacpp::testing_support
