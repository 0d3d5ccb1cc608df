// SPDX-License-Identifier: Apache-2.0
// Memory that runs out on one chip of a mesh, by a limit and by faults: the error names that chip, nobody hangs, the
// weights of the last finished step are untouched, and the process can run again.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"
#include "tests/end_to_end/training_run.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp {
namespace {

using memory::OomClass;
using memory::OutOfMemory;
using runtime::Fault;

struct FaultCase {
  std::string name;
  recipe::Layout layout;
  int64_t victim;
  std::string victim_name;
};

std::vector<FaultCase> fault_cases() {
  recipe::Layout two, eight;
  two.data_parallel = 2;
  two.zero = 3;  // weights travel while blocks compute
  eight.data_parallel = eight.tensor_parallel = eight.pipeline_parallel = 2;
  return {{"one_chip", {}, 0, "chip 0 on host "},
          {"two_chips", two, 1, "chip 1: data 1 on host "},
          {"eight_chips", eight, 5, "chip 5: stage 1, data 0, model 1 on host "}};
}

recipe::Recipe recipe_of(const recipe::Layout& layout) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.model.depth = 4;
  recipe.layout = layout;
  recipe.train.batch = 4;
  recipe.train.sequence = 16;
  recipe.train.micro_steps = 2;
  recipe.train.steps = 4;
  recipe.train.log_every = 1;
  return recipe;
}

int64_t running_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator{});
}

using Weights = std::map<std::string, std::vector<float>>;

class FaultInjectionTest : public testing::TestWithParam<FaultCase> {
 protected:
  FaultInjectionTest()
      : recipe_(recipe_of(GetParam().layout)),
        compiled_(compile::compile_training(plan::make_plan(recipe_), runtime::cpu::cpu_target(1))),
        batches_(corpus_, {.batch = 4, .sequence = 16, .micro_steps = 2, .draw = {.seed = 7}}) {}

  // A minute is long enough for anything here, and soon enough for a chip that would hang.
  std::unique_ptr<runtime::Executable> load(runtime::Faults faults, std::vector<int64_t> limits = {}) {
    return runtime::cpu::load(compiled_, {.threads = 1,
                                          .wait_limit = std::chrono::minutes(1),
                                          .limits = std::move(limits),
                                          .faults = std::move(faults)});
  }

  Weights weights(runtime::Executable& run) {
    train::RunState state(compiled_, run);
    Weights weights;
    for (const blocks::Parameter& parameter : compiled_.parameters)
      weights[parameter.name] = state.read<float>(parameter.name);
    return weights;
  }

  std::vector<double> train(runtime::Executable& run) {
    train::RunState(compiled_, run).initialise_weights(7);
    std::vector<double> losses;
    train::train({recipe_, compiled_, batches_, run},
                 {.after_log = [&](const train::StepReport& report) { losses.push_back(report.loss.value()); }});
    return losses;
  }

  /// The weights that as many steps leave, undisturbed.
  Weights weights_after(int64_t steps) {
    const auto run = load({});
    train::RunState(compiled_, *run).initialise_weights(7);
    if (steps > 0)
      train::train({recipe_, compiled_, batches_, *run},
                   {.after_log = [&](const auto&) { --steps; }, .should_stop = [&] { return steps == 0; }});
    return weights(*run);
  }

  void expect_victim(const OutOfMemory& error, OomClass cls, int64_t step) {
    EXPECT_EQ(error.exit_status(), 3);
    EXPECT_EQ(error.facts().cls, cls);
    EXPECT_EQ(error.facts().chip, GetParam().victim);
    EXPECT_EQ(error.facts().step, step);
    EXPECT_EQ(error.problem().where.find(GetParam().victim_name), 0U) << error.what();
    EXPECT_GT(error.facts().wanted.value(), 0);
    EXPECT_GT(error.facts().limit.value(), 0);
    EXPECT_FALSE(error.facts().largest.empty());
    EXPECT_FALSE(error.facts().roles.empty());
  }

  int64_t planned(int64_t chip) const { return compiled_.programs_of(chip).memory.total_bytes; }

  data::TextCorpus corpus_ = testing_support::small_corpus();
  recipe::Recipe recipe_;
  compile::Compiled compiled_;
  data::Batches batches_;
};
INSTANTIATE_TEST_SUITE_P(Layouts, FaultInjectionTest, testing::ValuesIn(fault_cases()),
                         [](const testing::TestParamInfo<FaultCase>& info) { return info.param.name; });

TEST_P(FaultInjectionTest, AnAllocationThatFailsInAStepEndsTheRunWithTheLastStepsWeights) {
  for (const int64_t step : {int64_t{0}, int64_t{2}}) {
    const auto run = load({{.chip = GetParam().victim, .step = step}});
    try {
      train(*run);
      FAIL() << "no error";
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.code(), base::Code::E2004);
      expect_victim(error, OomClass::runtime, step);
      EXPECT_TRUE(error.facts().is_injected);
    }
    EXPECT_EQ(weights(*run), weights_after(step)) << "step " << step;
  }
}

TEST_P(FaultInjectionTest, AFailureToLoadLeavesNothingBehind) {
  try {
    load({{.chip = GetParam().victim, .cls = OomClass::load}});
    FAIL() << "no error";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.code(), base::Code::E2003);
    expect_victim(error, OomClass::load, -1);
    EXPECT_EQ(error.facts().wanted, planned(GetParam().victim));
  }
}

TEST_P(FaultInjectionTest, AFaultInCompilingIsRaisedBeforeLoading) {
  const runtime::Faults faults = {{.chip = GetParam().victim, .cls = OomClass::compile}};
  EXPECT_NO_THROW(runtime::raise_faults(faults, OomClass::load, compiled_, {})) << "another moment";
  const std::vector<int64_t> limits(static_cast<size_t>(compiled_.mesh.chips()), 1000);
  try {
    runtime::raise_faults(faults, OomClass::compile, compiled_, limits);
    FAIL() << "no error";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.code(), base::Code::E2002);
    expect_victim(error, OomClass::compile, -1);
    EXPECT_EQ(error.facts().limit, 1000);
  }
  EXPECT_NO_THROW(runtime::raise_faults({{.chip = 99, .cls = OomClass::compile}}, OomClass::compile, compiled_, {}))
      << "a mesh that became smaller has no such chip";
}

TEST_P(FaultInjectionTest, TheProcessRunsAgainAfterEveryFailure) {
  const std::vector<double> wanted = train(*load({}));
  ASSERT_EQ(wanted.size(), 4U);
  const int64_t threads = running_threads();
  EXPECT_THROW(train(*load({{.chip = GetParam().victim, .step = 1}})), OutOfMemory);
  EXPECT_THROW(load({{.chip = GetParam().victim, .cls = OomClass::load}}), OutOfMemory);
  EXPECT_EQ(running_threads(), threads) << "a thread did not end";
  EXPECT_EQ(train(*load({})), wanted);
}

TEST_P(FaultInjectionTest, OneSmallChipIsTheCulprit) {
  std::vector<int64_t> limits;
  for (int64_t chip = 0; chip < compiled_.mesh.chips(); ++chip) limits.push_back(planned(chip));
  const auto run = load({}, limits);
  for (int64_t chip = 0; chip < run->chips(); ++chip)
    EXPECT_EQ(run->memory(chip).limit_bytes, limits[static_cast<size_t>(chip)]) << "the last byte may be used";
  limits[static_cast<size_t>(GetParam().victim)] -= 1;
  try {
    load({}, limits);
    FAIL() << "no error";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.code(), base::Code::E2001);
    expect_victim(error, OomClass::compile, -1);
    EXPECT_EQ(error.facts().wanted, planned(GetParam().victim));
    EXPECT_EQ(error.facts().limit, planned(GetParam().victim) - 1);
    EXPECT_FALSE(error.facts().is_injected);
  }
}

TEST_P(FaultInjectionTest, SeveralChipsThatFailAtOnceEndTheRunOnce) {
  runtime::Faults faults;
  for (int64_t chip = 0; chip < compiled_.mesh.chips(); ++chip) faults.push_back({.chip = chip, .step = 1});
  EXPECT_THROW(train(*load(faults)), OutOfMemory);
}

}  // namespace
}  // namespace megacpp
