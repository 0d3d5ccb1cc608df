// SPDX-License-Identifier: Apache-2.0
// Launches of several processes: whatever one of them sees, all take the same rung.
#include "megacpp/launch/agreement.h"

#include <gtest/gtest.h>

#include "megacpp/data/text_corpus.h"
#include "megacpp/launch/launch.h"
#include "megacpp/launch/training.h"
#include "megacpp/recipe/parse.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::launch {
namespace {

using testing_support::Processes;

constexpr int64_t kPlenty = int64_t{1} << 50;

class AgreementTest : public testing::Test {
 protected:
  static recipe::Recipe recipe(std::vector<std::string> settings = {}) {
    for (const char* setting : {"layout.data_parallel=2", "train.steps=2", "train.sequence=64", "model.depth=2",
                                "train.threads=2", "train.wait_limit=60"})
      settings.emplace_back(setting);
    return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings);
  }

  static Launch alone(int64_t free_memory) {
    return Launch(recipe(), {.none = true}, no_log, {.free_memory = [free_memory] { return free_memory; }});
  }

  ProcessOptions options(size_t process, int64_t free_memory = kPlenty) {
    return {.transport = processes_.transport(process), .free_memory = [free_memory] { return free_memory; }};
  }

  /// Two processes train; both end at rung 1.
  void expect_all_go_down(const std::string& fault) {
    const data::TextCorpus corpus =
        data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
    processes_.run([&](size_t process) {
      Launch launch(recipe({"hardware.fail_allocation=[" + fault + "]"}), {.none = true}, no_log, options(process));
      launch.prepare();
      EXPECT_EQ(launch.rung(), 0u);
      EXPECT_EQ(run_training(launch, corpus).reports.back().step, 1);
      EXPECT_EQ(launch.rung(), 1u);
    });
  }

  Processes processes_{2};
};

TEST_F(AgreementTest, TheLeastFreeMemoryDecidesForAll) {
  Launch whole = alone(kPlenty);
  whole.prepare();
  ASSERT_EQ(whole.rung(), 0u);
  // So little that a launch by itself goes down the ladder.
  int64_t little = 8 * whole.estimate().fit.worst().needed();
  const auto rung_with = [](int64_t bytes) {
    Launch launch = alone(bytes);
    launch.prepare();
    return launch.rung();
  };
  while (rung_with(little) == 0) little = little * 9 / 10;
  Launch wanted = alone(little);
  wanted.prepare();
  processes_.run([&](size_t process) {
    Launch launch(recipe(), {.none = true}, no_log, options(process, process == 0 ? kPlenty : little));
    launch.prepare();
    EXPECT_EQ(launch.rung(), wanted.rung());
    EXPECT_EQ(fit::to_text(launch.changes()), fit::to_text(wanted.changes()));
  });
}

TEST_F(AgreementTest, MemoryThatRunsOutOnOneProcessTakesAllDown) { expect_all_go_down("chip 1 step 0"); }

TEST_F(AgreementTest, AProcessThatCannotLoadTakesAllDown) { expect_all_go_down("chip 0 step load"); }

TEST_F(AgreementTest, AProcessThatIsDoneWithStepZeroLearnsThatAnotherRanOut) {
  processes_.run([&](size_t process) {
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    const int64_t needed = launch.estimate().fit.worst().needed();
    if (process == 0) {
      EXPECT_TRUE(launch.agreement().ran_out(false));
      launch.follow_down();
    } else {
      launch.step_down({base::Code::E2004,
                        {.where = "chip 1", .got = "an allocation failed"},
                        {.cls = memory::OomClass::runtime,
                         .stage = "step",
                         .chip = 1,
                         .step = 0,
                         .wanted = needed,
                         .limit = needed - 1}});
    }
    EXPECT_EQ(launch.rung(), 1u);
    EXPECT_LT(launch.estimate().fit.worst().needed(), needed);
  });
}

TEST_F(AgreementTest, AnotherErrorLeavesNobodyWaiting) {
  processes_.run([&](size_t process) {
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    if (process == 1) return launch.agreement().abort("loss nan");
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3101, [&] { launch.agreement().ran_out(false); });
    EXPECT_NE(problem.got.find("loss nan"), std::string::npos) << problem.got;
  });
}

TEST_F(AgreementTest, DifferentRecipesAreRefused) {
  processes_.run([&](size_t process) {
    const recipe::Recipe own = recipe({process == 0 ? "train.batch=8" : "train.batch=4"});
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3103, [&] { Agreement(own, options(process)); });
    EXPECT_EQ(problem.where, "recipe");
  });
}

}  // namespace
}  // namespace megacpp::launch
