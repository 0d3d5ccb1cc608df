// SPDX-License-Identifier: Apache-2.0
// Launches for a TPU whose plans may unroll blocks (xla.loops: auto), as a user sees them: what the ladder keeps and
// names, where the next launch starts, what the start says. Nothing is compiled for the TPU.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "megacpp/cli/train_start.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/launch/launch.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unrolled_blocks.h"

namespace megacpp::cli {
namespace {

class LaunchLoopsTest : public testing::Test {
 protected:
  static recipe::Recipe tpu_recipe(std::vector<std::string> settings) {
    settings.insert(settings.begin(),
                    {"backend=xla", "xla.plugin=tpu", "hardware.target=v6e:2x2", "checkpoint.every=-1"});
    return testing_support::wide_activations_recipe(settings);
  }

  /// The compiler refuses what runs; half of the batch would need more than it leaves in loops, and less unrolled.
  static void refuse_loops(launch::Launch& launch) {
    const recipe::Recipe half =
        fit::with_changes(launch.estimate().requested(), {{"train.batch", "4"}, {"train.micro_steps", "2"}});
    const int64_t looped = fit::make_estimate(half, launch.assumptions(), fit::FitVerdict::close).fit.worst().needed();
    const memory::OomClass cls = memory::OomClass::compile;
    launch.step_down({memory::code_of(cls),
                      {},
                      {.cls = cls,
                       .phase = "compiling",
                       .wanted = launch.estimate().fit.worst().needed(),
                       .limit = looped / 5 * 4}});
  }

  /// Of what runs, which says nothing of how much it wanted.
  static void fail_allocation(launch::Launch& launch) {
    const memory::OomClass cls = memory::OomClass::runtime;
    launch.step_down({memory::code_of(cls), {}, {.cls = cls, .phase = "step"}});
  }

  const testing_support::TemporaryFolder folder_;
  const testing_support::Variable catalog_{"MEGACPP_CATALOG", (folder_ / "catalog.sqlite").string()};
};

TEST_F(LaunchLoopsTest, BlocksUnrolledAfterAFailureAreNamedAndTheNextLaunchStartsSo) {
  const recipe::Recipe recipe = tpu_recipe({"train.batch=8", "ladder.rungs=[batch]"});
  std::vector<std::string> said;
  const auto keep = [&](const launch::Line& line) { said.push_back(line.text); };
  launch::Launch launch(recipe, {}, keep);
  launch.prepare();
  ASSERT_EQ(launch.recipe().xla.loops, recipe::XlaLoops::on);
  refuse_loops(launch);
  EXPECT_EQ(launch.recipe().xla.loops, recipe::XlaLoops::off);
  EXPECT_EQ(fit::to_text(launch.changes()), "train.batch=4 train.micro_steps=2 xla.loops=off");
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said.back(), "runs with train.batch=4 (was 8), train.micro_steps=2 (was 1), xla.loops=off (was auto)");
  launch.record_start();

  launch::Launch next(recipe, {}, keep);
  next.prepare();
  EXPECT_NE(said.back().find("train.batch=4 train.micro_steps=2 xla.loops=off: starting there"), std::string::npos)
      << said.back();
  EXPECT_EQ(next.rung(), 1u);
  EXPECT_EQ(next.recipe(), launch.recipe());
  EXPECT_EQ(fit::to_text(next.estimate().lane), "xla v6e placement=megacpp loops=off");
  launch::Launch in_loops(tpu_recipe({"train.batch=8", "ladder.rungs=[batch]", "xla.loops=on"}), {}, keep);
  in_loops.prepare();
  EXPECT_EQ(in_loops.rung(), 0u) << "the recipe leaves nothing to unroll";
  EXPECT_EQ(in_loops.recipe().xla.loops, recipe::XlaLoops::on);
}

// What the first failure led planning to is no change any more where the second leads it elsewhere.
TEST_F(LaunchLoopsTest, ALaterFailureDecidesAboutLoopsAgain) {
  launch::Launch launch(tpu_recipe({"train.batch=8", "ladder.rungs=[batch, recompute]", "train.recompute.A=full"}),
                        {.none = true});
  launch.prepare();
  refuse_loops(launch);
  ASSERT_EQ(fit::to_text(launch.changes()), "train.batch=4 train.micro_steps=2 xla.loops=off");
  const int64_t unrolled = launch.estimate().fit.worst().needed();
  fail_allocation(launch);
  EXPECT_LT(launch.estimate().fit.worst().needed(), unrolled);
  EXPECT_EQ(launch.recipe().xla.loops, recipe::XlaLoops::on)
      << "more recompute in loops is enough, and compiled sooner";
  const std::string changes = fit::to_text(launch.changes());
  EXPECT_TRUE(changes.starts_with("train.batch=4 train.micro_steps=2 train.recompute.E=")) << changes;
  EXPECT_EQ(changes.find("xla.loops"), std::string::npos) << changes;
}

// That blocks are unrolled stands with the backend; that the plan did it, and instead of what, in a line of its own.
TEST_F(LaunchLoopsTest, TheStartSaysThatThePlanUnrolledBlocks) {
  struct Started {
    fit::ChipGroup worst;
    std::string text;
  };
  const auto started = [](const std::vector<std::string>& settings) {
    launch::Launch launch(tpu_recipe(settings), {.none = true});
    launch.prepare();
    EXPECT_EQ(launch.rung(), 0u);
    return Started{launch.estimate().fit.worst(), start_text(launch, launch.estimate().compiled, data::TextCorpus())};
  };
  const std::string line = "\nblocks     ", in_loops = ", 16 of 16 blocks in loops of 8, ",
                    unrolled = ", 16 blocks unrolled, ";
  const Started looped = started({});
  EXPECT_EQ(looped.text.find(line), std::string::npos) << looped.text;
  EXPECT_NE(looped.text.find(in_loops), std::string::npos) << looped.text;

  const std::string limit = "hardware.limit=" + std::to_string(looped.worst.reservation.least - 1);
  const Started by_plan = started({limit});
  const std::string bytes = memory::human_bytes(looped.worst.needed());
  EXPECT_NE(by_plan.text.find(line + "unrolled (with blocks in loops a chip needs " + bytes + ")\n"), std::string::npos)
      << by_plan.text;
  EXPECT_NE(by_plan.text.find(unrolled), std::string::npos) << by_plan.text;

  for (const std::vector<std::string>& by_key :
       {std::vector<std::string>{"xla.loops=off"}, std::vector<std::string>{"xla.loops=off", limit}}) {
    const Started said = started(by_key);
    EXPECT_EQ(said.text.find(line), std::string::npos) << said.text;
    EXPECT_NE(said.text.find(unrolled), std::string::npos) << said.text;
    EXPECT_EQ(said.worst.needed(), by_plan.worst.needed());
  }
}

}  // namespace
}  // namespace megacpp::cli
