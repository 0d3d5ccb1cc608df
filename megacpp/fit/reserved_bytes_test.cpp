// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/reserved_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "megacpp/fit/parameter_bytes.h"
#include "megacpp/recipe/parse.h"
#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

using testing_support::test_assumptions;

using Settings = std::vector<std::string>;

constexpr int64_t kHeads = 4;  // of nam52-tiny

// Four AE pairs in a loop of four, nothing recomputed unless the settings say so.
recipe::Recipe looped_recipe(const Settings& more = {}) {
  Settings settings = {"model.pattern=AE", "model.depth=8",          "train.precision=bf16",
                       "train.batch=4",    "train.micro_steps=1",    "layout.data_parallel=4",
                       "layout.zero=3",    "train.recompute.A=none", "train.recompute.E=none"};
  settings.insert(settings.end(), more.begin(), more.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings);
}

struct Planned {
  Estimate estimate;
  std::optional<ReservedBytes> reserved = estimate.reserved;

  int64_t bytes(ir::Role role) const {
    int64_t sum = 0;
    for (const memory::Item& item : estimate.worst_memory().items)
      if (item.role == role) sum += item.bytes;
    return sum;
  }
};

Planned planned(const Settings& more = {}, const Assumptions& assumptions = test_assumptions("v6e:2x2")) {
  return {make_estimate(looped_recipe(more), assumptions)};
}

int64_t times(double factor, int64_t bytes) { return std::llround(factor * static_cast<double>(bytes)); }

int64_t weights(const Planned& plan, bool in_blocks) {
  int64_t bytes = 0;
  for (const memory::Item& item : plan.estimate.worst_memory().items)
    if (item.role == ir::Role::weight && item.letter.empty() != in_blocks) bytes += item.bytes;
  return bytes;
}

TEST(ReservedBytesTest, EveryTermIsWhatThePlanHasOfItsKind) {
  const hw::Chip chip = hw::find_chip("v6e");
  const Planned plan = planned();
  ASSERT_TRUE(plan.reserved);
  const ReservedBytes& reserved = *plan.reserved;
  const recipe::Recipe& recipe = plan.estimate.recipe;
  int64_t kept = 0;
  for (const memory::Item& item : plan.estimate.worst_memory().items)
    if (item.role == ir::Role::activation && !item.letter.empty()) kept += item.bytes;
  EXPECT_EQ(reserved.arguments, argument_bytes(plan.estimate.worst_memory(), recipe, chip).total());
  EXPECT_EQ(reserved.kept, kept);
  EXPECT_EQ(reserved.gaps, times(chip.reserved_per_kept - 1, kept));
  EXPECT_EQ(reserved.weight_copies, weights(plan, true) / 2) << "what a chip stores of them, in bf16";
  EXPECT_EQ(reserved.outside_weights, 0) << "gathered";
  EXPECT_EQ(reserved.iteration, times(2.0 / 8, kept)) << "two blocks of eight";
  EXPECT_EQ(reserved.gradients, plan.bytes(ir::Role::gradient));
  const int64_t tokens = recipe.train.sequence;  // one sequence a chip
  EXPECT_EQ(reserved.logits, 2 * tokens * recipe.model.vocab);
  EXPECT_GE(reserved.total(), plan.estimate.worst_memory().total_bytes + reserved.code);
}

// Queries see keys up to their own position.
TEST(ReservedBytesTest, ScoresAreThoseOfOneCausalAttention) {
  const hw::Chip chip = hw::find_chip("v6e");
  for (const int64_t length : {64, 256}) {
    const Planned plan = planned({"train.sequence=" + std::to_string(length)});
    ASSERT_TRUE(plan.reserved);
    const int64_t pairs = length * (length + 1) / 2;
    EXPECT_EQ(plan.reserved->scores, times(chip.reserved_per_score, pairs * kHeads));
  }
}

// Where every chip has weights whole blocks keep them in bf16, which the plan counts among activations.
TEST(ReservedBytesTest, CopiesOfWeightsAreNotWhatBlocksKeep) {
  const Planned plan = planned({"layout.zero=1"});
  ASSERT_TRUE(plan.reserved);
  int64_t activations = 0;
  for (const memory::Item& item : plan.estimate.worst_memory().items)
    if (item.role == ir::Role::activation && !item.letter.empty()) activations += item.bytes;
  const int64_t copies = weights(plan, true) / 2;
  EXPECT_GT(copies, 0);
  EXPECT_EQ(plan.reserved->weight_copies, copies) << "those converted before the forward loop are gone behind it";
  EXPECT_EQ(plan.reserved->kept, activations - copies);
  EXPECT_EQ(plan.reserved->outside_weights, weights(plan, false));
  const Settings recomputing = {"layout.zero=1", "train.recompute.A=full", "train.recompute.E=full"};
  EXPECT_EQ(planned(recomputing).reserved->weight_copies, 0) << "converted again";
}

TEST(ReservedBytesTest, SeveralMicroStepsHoldSumsBesideGradientsAndOneConversion) {
  const Planned one = planned({"layout.zero=1"}), two = planned({"layout.zero=1", "train.micro_steps=2"});
  ASSERT_TRUE(one.reserved && two.reserved);
  EXPECT_EQ(two.reserved->gradients, 2 * two.bytes(ir::Role::gradient));
  EXPECT_EQ(two.reserved->weight_copies, 2 * one.reserved->weight_copies);
}

// Short sequences: the head or the copies of weights are what is largest. Long ones: scores.
TEST(ReservedBytesTest, ThePeakIsThatOfTheLargestPart) {
  const auto apart = [](const Planned& plan) {
    const ReservedBytes& r = *plan.reserved;
    return r.peak - r.arguments - r.kept - r.weight_copies - r.outside_weights;
  };
  const hw::Chip chip = hw::find_chip("v6e");
  const Planned copies = planned({"layout.zero=1", "train.sequence=16"}), scores = planned({"train.sequence=4096"});
  const recipe::Model& model = copies.estimate.recipe.model;
  const int64_t head = 4 * model.hidden * model.vocab + 2 * copies.reserved->logits;
  EXPECT_EQ(apart(copies), std::max(head, weights(copies, true) / 2));
  const auto of_scores = static_cast<double>(scores.reserved->scores) / chip.reserved_per_score;
  EXPECT_NEAR(static_cast<double>(apart(scores)),
              static_cast<double>(scores.reserved->gradients + scores.reserved->logits) + 6 * of_scores, 1);
  const Planned sums = planned({"train.micro_steps=2", "train.sequence=16"});
  EXPECT_EQ(apart(sums), head + sums.bytes(ir::Role::gradient)) << "sums of earlier micro-steps are there in the head";
  for (const Planned& plan : {copies, scores, sums}) EXPECT_LE(plan.reserved->peak, plan.reserved->total());
}

// A loop's body makes again what its blocks do not keep: one iteration has as much alive as if it kept everything.
TEST(ReservedBytesTest, AnIterationIsAsLargeWhereItsBlocksRecompute) {
  for (const char* zero : {"layout.zero=3", "layout.zero=1"}) {
    const Settings keeping = {zero, "train.sequence=4096"};  // so that blocks keep more than their weights take
    Settings recomputing = keeping;
    recomputing.insert(recomputing.end(), {"train.recompute.A=full", "train.recompute.E=full"});
    const Planned all = planned(keeping), none = planned(recomputing);
    ASSERT_TRUE(all.reserved && none.reserved);
    EXPECT_LT(none.reserved->kept, all.reserved->kept / 2);
    // Where all is kept the peak is in a block's backward pass, and what that block kept is gone in part.
    const double ratio = static_cast<double>(none.reserved->iteration) / static_cast<double>(all.reserved->iteration);
    EXPECT_GE(ratio, 1);
    EXPECT_LE(ratio, 1.3);
  }
}

// Nothing of the backward pass is alive at the peak of such a step.
TEST(ReservedBytesTest, AnUpdateThatNeedsMoreHidesNoIteration) {
  const Planned plan = planned({"layout.zero=1", "train.micro_steps=2", "train.sequence=16", "train.recompute.A=full",
                                "train.recompute.E=full"});
  ASSERT_EQ(plan.estimate.worst_memory().peak_program, "update");
  ASSERT_TRUE(plan.reserved);
  EXPECT_GT(plan.reserved->iteration, 0);
  EXPECT_GT(plan.reserved->kept + plan.reserved->weight_copies, 0) << "what the micro-step has, not the update";
  EXPECT_GE(plan.reserved->total(), plan.estimate.worst_memory().total_bytes + plan.reserved->code);
}

// A step whose peak is in its micro-step is not planned again: the rest of it has no bytes of these kinds.
TEST(ReservedBytesTest, APeakInTheMicroStepIsThatOfItsOwnPlan) {
  const Assumptions assumptions = test_assumptions("v6e:2x2");
  for (const char* zero : {"layout.zero=0", "layout.zero=1", "layout.zero=3"}) {
    SCOPED_TRACE(zero);
    const Planned plan = planned({zero}, assumptions);
    const compile::StagePrograms& chip = plan.estimate.compiled.stages[0];
    ASSERT_NE(chip.memory.peak_program, "update");
    const ir::Graph& micro_step = chip.find(compile::ProgramKind::micro_step).graph;
    const memory::MemoryPlan alone = memory::plan_memory({&micro_step}, target_on(assumptions));
    for (const ir::Role role :
         {ir::Role::weight, ir::Role::gradient, ir::Role::activation, ir::Role::temporary, ir::Role::collective}) {
      int64_t bytes = 0;
      for (const memory::Item& item : alone.items)
        if (item.role == role) bytes += item.bytes;
      EXPECT_EQ(plan.bytes(role), bytes) << ir::role_name(role);
    }
  }
}

// A pattern of names may name a block that one iteration does not have.
TEST(ReservedBytesTest, AnIterationHasNoUpdate) {
  const Planned plan =
      planned({"train.recompute.A=full", "train.recompute.E=full", "optimizer.no_decay=[norm, block07.E.w_up]"});
  ASSERT_TRUE(plan.reserved);
  EXPECT_EQ(plan.reserved->iteration,
            planned({"train.recompute.A=full", "train.recompute.E=full"}).reserved->iteration);
}

TEST(ReservedBytesTest, CodeGrowsWithTheBlocksThatHaveText) {
  const hw::Chip chip = hw::find_chip("v6e");
  EXPECT_EQ(planned().reserved->code, chip.code_bytes_base + 2 * chip.code_bytes_per_block);
  EXPECT_EQ(planned({"model.depth=16"}).reserved->code, planned().reserved->code) << "longer loops";
  EXPECT_EQ(planned({"model.depth=9"}).reserved->code, chip.code_bytes_base + 3 * chip.code_bytes_per_block)
      << "a block behind the loop";
}

TEST(ReservedBytesTest, TheVerdictComesFromHowFarOffTheRuleMayBe) {
  const hw::Chip chip = hw::find_chip("v6e");
  const Planned plan = planned();
  const int64_t total = plan.reserved->total();
  const ChipGroup& worst = plan.estimate.fit.worst();
  EXPECT_EQ(worst.needed(), total);
  EXPECT_EQ(worst.least_needed(), times(1 / (1 + chip.reserved_off_most), total));
  EXPECT_EQ(worst.most_needed(), times(1 + chip.reserved_off_most, total));
  EXPECT_EQ(worst.code, plan.reserved->code);
  ReservedBytes state{.arguments = 1000, .scores = 10, .code = 100};
  EXPECT_EQ(state.range(chip).least, 1100) << "arguments and code are exact";
}

// XLA never stores some of what a plan of unrolled blocks has.
TEST(ReservedBytesTest, OfUnrolledBlocksLessMayBeReservedThanIsPlanned) {
  const hw::Chip chip = hw::find_chip("v6e");
  const ChipGroup worst = planned({"xla.loops=off"}).estimate.fit.worst();
  const int64_t code = code_bytes(chip);
  EXPECT_EQ(worst.needed(), worst.planned + code);
  EXPECT_EQ(worst.least_needed(), times(chip.unrolled_least, worst.planned) + code);
  EXPECT_EQ(worst.most_needed(), times(chip.gaps_most, worst.planned) + code);
  Assumptions own_kernels = test_assumptions("v6e:2x2");
  own_kernels.slice.chip.unrolled_least = 1;
  EXPECT_FALSE(planned({"xla.loops=off"}, own_kernels).estimate.fit.worst().reserved);
}

TEST(ReservedBytesTest, NothingIsExpectedWhereNoRuleIsKnown) {
  EXPECT_FALSE(planned({"xla.loops=off"}).reserved);
  EXPECT_FALSE(planned({"xla.placement=xla"}).reserved);
  EXPECT_FALSE(planned({"train.precision=f32"}).reserved);
  EXPECT_FALSE(planned({"model.depth=1"}).reserved) << "no loop";
  EXPECT_FALSE(planned({"train.sequence=8192"}).reserved) << "no step of such a length was recorded";
  EXPECT_FALSE(planned({}, test_assumptions("v5e:2x2")).reserved) << "its file says nothing";
  Assumptions own_kernels = test_assumptions("v6e:2x2");
  own_kernels.slice.chip.reserved_per_kept = 0;
  EXPECT_FALSE(planned({}, own_kernels).reserved);
}

}  // namespace
}  // namespace megacpp::fit
