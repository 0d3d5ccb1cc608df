// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/reserved_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "megacpp/core/base/file.h"
#include "megacpp/hardware/fit/parameter_bytes.h"
#include "megacpp/hardware/fit/stacked_bytes.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/assumptions.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::fit {
namespace {

using testing_support::test_assumptions;

using Settings = std::vector<std::string>;

constexpr int64_t kHeads = 4;                    // of nam52-tiny
constexpr int64_t kMiB128 = int64_t{128} << 20;  // that ranges are wider at both ends

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

TEST(ReservedBytesTest, EveryTermIsWhatTheStepHasOfItsKind) {
  const hw::Chip chip = hw::find_chip("v6e");
  const Assumptions assumptions = test_assumptions("v6e:2x2");
  const Planned plan = planned({}, assumptions);
  ASSERT_TRUE(plan.reserved);
  const ReservedBytes& reserved = *plan.reserved;
  const recipe::Recipe& recipe = plan.estimate.recipe();
  EXPECT_EQ(reserved.arguments, argument_bytes(plan.estimate.worst_memory(), recipe, chip).total());
  EXPECT_EQ(reserved.kept, stacked_bytes(recipe, target_on(assumptions)));
  EXPECT_EQ(reserved.weights_in_bf16, weights(plan, true) / 2) << "what a chip stores of them, in bf16";
  EXPECT_EQ(reserved.weights_in_f32, 0) << "gathered";
  EXPECT_EQ(reserved.forward, 0) << "neither sums nor weights that it alone reads";
  const int64_t logits = 2 * recipe.train.sequence * recipe.model.vocab;  // one sequence a chip
  EXPECT_EQ(reserved.head, 4 * recipe.model.hidden * recipe.model.vocab + logits);
  const int64_t scores = recipe.train.sequence * (recipe.train.sequence + 1) / 2 * kHeads;
  EXPECT_EQ(reserved.backward,
            plan.bytes(ir::Role::gradient) + 6 * scores + times(chip.alive_blocks, reserved.kept / recipe.model.depth));
  EXPECT_EQ(reserved.gaps, times(chip.reserved_per_alive - 1, reserved.alive()));
  EXPECT_EQ(reserved.other, 0);
}

// Queries see keys up to their own position.
TEST(ReservedBytesTest, ScoresAreThoseOfOneCausalAttention) {
  const auto beside_blocks = [](int64_t length) {
    const Planned plan = planned({"train.sequence=" + std::to_string(length)});
    const int64_t blocks = times(hw::find_chip("v6e").alive_blocks, plan.reserved->kept / 8);
    return plan.reserved->backward - blocks - plan.bytes(ir::Role::gradient);
  };
  for (const int64_t length : {64, 256}) EXPECT_EQ(beside_blocks(length), 6 * length * (length + 1) / 2 * kHeads);
}

// Of several sequences XLA may or may not hold scores in bf16 beside those in f32.
TEST(ReservedBytesTest, ScoresOfSeveralSequencesDependOnWhatIsRecomputed) {
  struct Case {
    const char *zero, *attention, *feed_forward;
    int64_t expected, uncertain;  // bytes of a score
  };
  const std::vector<Case> cases = {{"3", "none", "none", 6, 0},      {"3", "full", "none", 6, 0},
                                   {"3", "full", "full", 4, 0},      {"3", "none", "selective", 5, 1},
                                   {"1", "full", "selective", 5, 1}, {"1", "none", "none", 6, 0}};
  const int64_t length = looped_recipe().train.sequence, scores = 2 * length * (length + 1) / 2 * kHeads;
  for (const Case& c : cases) {
    const Settings settings = {"train.batch=8", std::string("layout.zero=") + c.zero,
                               std::string("train.recompute.A=") + c.attention,
                               std::string("train.recompute.E=") + c.feed_forward};
    const Planned plan = planned(settings), all = planned({"train.batch=8"});
    const int64_t blocks = times(hw::find_chip("v6e").alive_blocks, all.reserved->kept / 8);
    EXPECT_EQ(plan.reserved->backward - blocks - plan.bytes(ir::Role::gradient), c.expected * scores)
        << c.zero << c.attention << c.feed_forward;
    EXPECT_EQ(plan.reserved->uncertain, c.uncertain * scores) << c.zero << c.attention << c.feed_forward;
  }
  const ReservedBytes reserved{.backward = 1000 * kMiB128, .uncertain = 100 * kMiB128, .off_most = 0.25};
  EXPECT_EQ(reserved.range().least, (720 - 1) * kMiB128);
  EXPECT_EQ(reserved.range().expected, 1000 * kMiB128);
  EXPECT_EQ(reserved.range().most, (1375 + 1) * kMiB128);
  ReservedBytes with_head = reserved;
  with_head.largest = 3 * kMiB128;
  EXPECT_EQ(with_head.range().most, reserved.range().most) << "within what the rule may be off";
  with_head.largest = 500 * kMiB128;
  EXPECT_EQ(with_head.range().most, (1100 + 500 + 1) * kMiB128) << "it may find no room in one piece";
  EXPECT_EQ(with_head.range().least, reserved.range().least);
}

// Of more than 4096 keys scores exist for one pair of blocks, and the sums of dk and dv in f32 beside them.
TEST(ReservedBytesTest, LongAttentionHasWhatItsLoopHolds) {
  const Planned plan = planned({"train.sequence=8192"});
  ASSERT_TRUE(plan.reserved);
  const int64_t pair = 512 * 512 * kHeads;
  EXPECT_GT(plan.reserved->backward, 2 * (4 + 2) * pair);
  EXPECT_LT(plan.reserved->backward, 6 * int64_t{8192} * 8192 / 2 * kHeads) << "all scores at once";
  EXPECT_EQ(plan.reserved->off_most, hw::find_chip("v6e").unrolled_off_most) << "not as closely";
}

TEST(ReservedBytesTest, AModelWithoutAttentionHasNoScores) {
  const Settings settings = {"model.pattern=ME",      "model.depth=8",       "train.precision=bf16",
                             "train.batch=8",         "train.sequence=64",   "layout.data_parallel=4",
                             "layout.zero=3",         "train.micro_steps=1", "train.recompute.M=full",
                             "train.recompute.E=none"};
  const recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings);
  EXPECT_EQ(make_estimate(recipe, test_assumptions("v6e:2x2")).reserved.value().uncertain, 0);
}

// Where every chip has weights whole blocks keep them in bf16, in stacks as all that they keep.
TEST(ReservedBytesTest, CopiesOfWeightsAreNotWhatBlocksKeep) {
  const Planned plan = planned({"layout.zero=1"});
  ASSERT_TRUE(plan.reserved);
  const int64_t copies = weights(plan, true) / 2;
  EXPECT_GT(copies, 0);
  EXPECT_EQ(plan.reserved->weights_in_bf16, copies);
  EXPECT_EQ(plan.reserved->forward, copies) << "those converted before the forward loop are gone behind it";
  EXPECT_EQ(plan.reserved->kept, planned().reserved->kept);
  EXPECT_EQ(plan.reserved->weights_in_f32, weights(plan, false));
  const Settings recomputing = {"layout.zero=1", "train.recompute.A=full", "train.recompute.E=full"};
  EXPECT_EQ(planned(recomputing).reserved->weights_in_bf16, copies) << "both loops read what was converted once";
  EXPECT_EQ(planned(recomputing).reserved->forward, 0);
}

TEST(ReservedBytesTest, SeveralMicroStepsHoldSumsAndOneConversion) {
  const Planned one = planned({"layout.zero=1"}), two = planned({"layout.zero=1", "train.micro_steps=2"});
  ASSERT_TRUE(one.reserved && two.reserved);
  const int64_t sums = two.bytes(ir::Role::gradient);
  EXPECT_EQ(two.reserved->weights_in_bf16, 2 * one.reserved->weights_in_bf16);
  EXPECT_EQ(two.reserved->forward, sums);
  EXPECT_EQ(two.reserved->head, one.reserved->head + sums);
  EXPECT_GT(two.reserved->backward, two.reserved->head) << "so the head's work comes first";
  EXPECT_EQ(two.reserved->backward - sums, one.reserved->backward - one.bytes(ir::Role::gradient))
      << "gradients are added to the sums in place";
}

// Where the head's work holds the most anyway it comes behind that of the blocks, which hold the logits then.
TEST(ReservedBytesTest, BlocksHoldLogitsOfSeveralMicroStepsWhereTheHeadHoldsMore) {
  const Settings settings = {"layout.zero=1", "model.vocab=65536"};
  Settings more = settings;
  more.emplace_back("train.micro_steps=2");
  const Planned one = planned(settings), two = planned(more);
  ASSERT_TRUE(one.reserved && two.reserved);
  const recipe::Recipe& recipe = two.estimate.recipe();
  const int64_t logits = 2 * recipe.train.sequence * recipe.model.vocab;
  ASSERT_LE(two.reserved->backward - logits, two.reserved->head);
  EXPECT_EQ(two.reserved->backward - two.bytes(ir::Role::gradient) - logits,
            one.reserved->backward - one.bytes(ir::Role::gradient));
}

// With the whole state on every chip, few tokens and nothing kept the update has the most.
TEST(ReservedBytesTest, AnUpdateHoldsGradientsAndWhatItMakesOutsideBlocks) {
  const Settings settings = {"layout.zero=0", "model.vocab=16384", "train.sequence=16", "train.recompute.A=full",
                             "train.recompute.E=full"};
  const Planned plan = planned(settings);
  ASSERT_TRUE(plan.reserved);
  const ReservedBytes& r = *plan.reserved;
  const int64_t gradients = weights(plan, true) + weights(plan, false);
  EXPECT_EQ(r.update, gradients + 3 * weights(plan, false)) << "the weight and AdamW's two moments";
  EXPECT_EQ(r.alive(), r.arguments + r.weights_in_f32 + r.update);
  EXPECT_GT(r.update, r.kept + r.weights_in_bf16 + std::max({r.forward, r.head, r.backward}));
}

// Short sequences: the head or the copies of weights are what is largest. Long ones: scores.
TEST(ReservedBytesTest, TheLargestPartIsAlive) {
  const auto apart = [](const Planned& plan) {
    const ReservedBytes& r = *plan.reserved;
    return r.alive() - r.arguments - r.kept - r.weights_in_bf16 - r.weights_in_f32;
  };
  const Planned copies = planned({"layout.zero=1", "train.sequence=16"}), scores = planned({"train.sequence=4096"});
  EXPECT_EQ(apart(copies), std::max(copies.reserved->head, copies.reserved->forward));
  EXPECT_LT(copies.reserved->backward, apart(copies));
  EXPECT_EQ(apart(scores), scores.reserved->backward);
  EXPECT_LT(scores.reserved->head, apart(scores));
}

// XLA makes again at once what half of a body's blocks do not keep.
TEST(ReservedBytesTest, BlocksThatRecomputeKeepLessAndHaveMoreOfABodyAlive) {
  const Settings keeping = {"model.pattern=AEEEEEEE", "model.depth=16"};
  Settings recomputing = keeping;
  recomputing.insert(recomputing.end(), {"train.recompute.A=full", "train.recompute.E=full"});
  const Planned all = planned(keeping), none = planned(recomputing);
  ASSERT_TRUE(all.reserved && none.reserved);
  EXPECT_LT(none.reserved->kept, all.reserved->kept / 2);
  const double block = static_cast<double>(all.reserved->kept / 16), two = hw::find_chip("v6e").alive_blocks;
  const auto beside_gradients = [](const Planned& plan) {
    return static_cast<double>(plan.reserved->backward - plan.bytes(ir::Role::gradient));
  };
  EXPECT_NEAR(beside_gradients(none) - beside_gradients(all), (8 / 2 - two) * block, 1);
}

// Copies of weights that blocks would keep are no values of a block.
TEST(ReservedBytesTest, WeightsOfBlocksThatRecomputeAreNotAliveWithTheirValues) {
  const Settings whole = {"layout.zero=1", "train.recompute.A=full", "train.recompute.E=full"};
  const Settings sharded = {"layout.zero=3", "train.recompute.A=full", "train.recompute.E=full"};
  const auto beside_gradients = [](const Planned& plan) {
    return plan.reserved->backward - plan.bytes(ir::Role::gradient);
  };
  EXPECT_EQ(beside_gradients(planned(whole)), beside_gradients(planned(sharded)));
}

// Nothing of the backward pass is alive at the peak of such a step.
TEST(ReservedBytesTest, AnUpdateThatNeedsMoreIsNotShortened) {
  const Planned plan = planned({"layout.zero=1", "train.micro_steps=2", "train.sequence=16", "train.recompute.A=full",
                                "train.recompute.E=full"});
  ASSERT_EQ(plan.estimate.worst_memory().peak_program, "update");
  ASSERT_TRUE(plan.reserved);
  EXPECT_GT(plan.reserved->kept, 0) << "what the micro-step has, not the update";
  EXPECT_GE(plan.reserved->alive(), plan.estimate.worst_memory().total_bytes);
}

// What is elementwise in a feed-forward is made again by fusions across both passes, and XLA reads no stacks.
TEST(ReservedBytesTest, UnrolledBlocksKeepWhatFusionsDoNotMakeAgain) {
  const hw::Chip chip = hw::find_chip("v6e");
  const Planned plan = planned({"xla.loops=off"}), selective = planned({"train.recompute.E=selective"});
  ASSERT_TRUE(plan.reserved && selective.reserved);
  const ReservedBytes& r = *plan.reserved;
  const recipe::Recipe& recipe = plan.estimate.recipe();
  EXPECT_EQ(r.kept, selective.reserved->kept);
  EXPECT_LT(r.kept, planned().reserved->kept);
  EXPECT_EQ(r.weights_in_f32 + r.weights_in_bf16 + r.forward, 0);
  const int64_t logits = 2 * recipe.train.sequence * recipe.model.vocab;
  EXPECT_EQ(r.head, logits + 4 * recipe.model.hidden * recipe.model.vocab);
  const int64_t block_scores = kHeads * recipe.train.sequence / 2 * recipe.train.sequence;
  EXPECT_EQ(r.backward, 6 * block_scores) << "scores of the second of two blocks of queries; the head's work is done";
  EXPECT_EQ(r.update, plan.bytes(ir::Role::gradient));
  EXPECT_EQ(r.gaps, times(chip.unrolled_per_alive - 1, r.alive()));
  EXPECT_EQ(r.code, chip.code_bytes_base + 8 * chip.unrolled_code_per_block);
  EXPECT_EQ(plan.estimate.fit.worst().most_needed(), times(1 + chip.unrolled_off_most, r.total()) + kMiB128);
  EXPECT_EQ(planned({"model.depth=2"}).reserved->off_most, chip.unrolled_off_most) << "nothing repeats";
  EXPECT_EQ(planned({"xla.loops=off", "train.batch=8"}).reserved->kept, planned({"train.batch=8"}).reserved->kept)
      << "two sequences a chip, weights gathered twice";
}

// Its second forward pass makes scores of all blocks of queries, which the backward pass reads one after the other.
TEST(ReservedBytesTest, UnrolledAttentionThatRecomputesWholeHoldsTheScoresOfAllItsBlocks) {
  const Planned whole = planned({"xla.loops=off", "train.recompute.A=full"});
  const Planned part = planned({"xla.loops=off", "train.recompute.A=selective"});
  const int64_t sequence = whole.estimate.recipe().train.sequence;
  const int64_t first_block = kHeads * sequence / 2 * sequence / 2;  // of two, the second sees all keys
  EXPECT_EQ(whole.reserved->backward, part.reserved->backward + 4 * first_block);
}

// The head's gradient comes before that of blocks where it is scattered at once, or takes less than logits do.
TEST(ReservedBytesTest, UnrolledBlocksHoldLogitsThatTheHeadsGradientWaitsFor) {
  const auto beside_scores = [](const Settings& more) {
    Settings settings = {"xla.loops=off", "train.recompute.A=selective"};
    settings.insert(settings.end(), more.begin(), more.end());
    const Planned plan = planned(settings);
    const recipe::Recipe& recipe = plan.estimate.recipe();
    const int64_t sequence = recipe.train.sequence, sequences = recipe.train.batch / 4;
    return plan.reserved->backward - plan.reserved->forward - 6 * sequences * kHeads * sequence / 2 * sequence;
  };
  const int64_t logits = 2 * looped_recipe().train.sequence * looped_recipe().model.vocab;
  EXPECT_EQ(beside_scores({}), 0);
  EXPECT_EQ(beside_scores({"layout.zero=0"}), logits);
  EXPECT_EQ(beside_scores({"train.micro_steps=2"}), logits);
  EXPECT_EQ(beside_scores({"layout.zero=0", "train.batch=16"}), 0) << "more than the weight in f32";
}

// Each chip's own gradients of the table and of the head are added up, and scattered behind all micro-steps.
TEST(ReservedBytesTest, UnrolledSumsOutsideBlocksAreWholeWhereWeightsAre) {
  const Planned one = planned({"xla.loops=off", "layout.zero=2"});
  const Planned several = planned({"xla.loops=off", "layout.zero=2", "train.micro_steps=2"});
  const recipe::Recipe& recipe = several.estimate.recipe();
  const int64_t table = 4 * recipe.model.hidden * recipe.model.vocab;  // in f32
  EXPECT_EQ(several.reserved->forward, several.bytes(ir::Role::gradient) + 2 * (table - table / 4));
  const int64_t logits = 2 * recipe.train.sequence * recipe.model.vocab;
  EXPECT_EQ(several.reserved->head, logits + several.reserved->forward) << "the head's gradient is added in place";
  EXPECT_EQ(one.reserved->head, logits + table);
}

TEST(ReservedBytesTest, UnrolledStepsCopyWeightsOutsideTheLoopOverMicroSteps) {
  const Planned whole = planned({"xla.loops=off", "layout.zero=1"});
  const int64_t stored = weights(whole, true) + weights(whole, false);
  EXPECT_EQ(whole.reserved->weights_in_f32, stored);
  EXPECT_EQ(whole.reserved->weights_in_bf16, 0);
  EXPECT_EQ(planned({"xla.loops=off", "layout.zero=0"}).reserved->weights_in_f32, 0) << "updated in place";
  const Planned several = planned({"xla.loops=off", "train.micro_steps=2"});
  const int64_t sharded = weights(several, true) + weights(several, false);
  // Of what is gathered none or half is there from the start; all or none where blocks recompute whole.
  EXPECT_EQ(several.reserved->weights_in_bf16, sharded / 2 + stored / 2 / 4);
  EXPECT_EQ(several.reserved->uncertain_in_both, stored / 2 / 4);
  const Planned full =
      planned({"xla.loops=off", "train.micro_steps=2", "train.recompute.A=full", "train.recompute.E=full"});
  EXPECT_EQ(full.reserved->weights_in_bf16, sharded / 2 + stored / 2 / 2);
  EXPECT_EQ(full.reserved->uncertain_in_both, stored / 2 / 2);
  const ReservedRange range = several.reserved->range();
  EXPECT_GT(range.most,
            times(1 + several.reserved->off_most, several.reserved->total() - several.reserved->code) + kMiB128)
      << "which widens the range";
  EXPECT_EQ(several.reserved->forward, several.bytes(ir::Role::gradient)) << "sums";
}

// Reduce-scatters over a square slice are written in stages, which XLA keeps.
TEST(ReservedBytesTest, UnrolledGradientsOverSixteenChipsAreScattered) {
  const Settings sixteen = {"xla.loops=off", "layout.data_parallel=16", "train.batch=16", "train.sequence=16"};
  const Planned plan = planned(sixteen, test_assumptions("v6e:4x4"));
  ASSERT_TRUE(plan.reserved);
  EXPECT_EQ(plan.reserved->update, plan.bytes(ir::Role::gradient));
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
  EXPECT_EQ(worst.least_needed(), plan.reserved->arguments + plan.reserved->code) << "a small step";
  EXPECT_EQ(worst.most_needed(), times(1 + chip.reserved_off_most, total) + kMiB128);
  EXPECT_EQ(worst.code, plan.reserved->code);
  const ReservedBytes state{.arguments = 1000, .backward = 10, .code = 100, .off_most = 0.12};
  EXPECT_EQ(state.range().least, 1000) << "arguments are exact";
}

// XLA never stores some of what a plan has.
TEST(ReservedBytesTest, WithoutARuleLessMayBeReservedThanIsPlanned) {
  const hw::Chip chip = hw::find_chip("v6e");
  {
    const ChipGroup worst = planned({"xla.placement=xla"}).estimate.fit.worst();
    EXPECT_EQ(worst.needed(), worst.planned + code_bytes(chip));
    EXPECT_EQ(worst.least_needed(), times(chip.gaps_least, worst.planned) + chip.code_bytes_least);
    EXPECT_EQ(worst.most_needed(), times(chip.gaps_most, worst.planned) + code_bytes(chip));
  }
  const ChipGroup state = planned({"xla.placement=xla", "train.sequence=16"}).estimate.fit.worst();
  EXPECT_LT(times(chip.gaps_least, state.planned), state.state);
  EXPECT_EQ(state.least_needed(), state.state + chip.code_bytes_least) << "state is exact";
  Assumptions own_kernels = test_assumptions("v6e:2x2");
  own_kernels.slice.chip.gaps_least = 1;
  EXPECT_FALSE(planned({"xla.placement=xla"}, own_kernels).estimate.fit.worst().reserved);
}

TEST(ReservedBytesTest, NothingIsExpectedWhereNoRuleIsKnown) {
  EXPECT_FALSE(planned({"xla.placement=xla"}).reserved);
  EXPECT_FALSE(planned({"train.precision=f32"}).reserved);
  const Settings long_unrolled = {"train.sequence=8192", "xla.loops=off"};
  EXPECT_FALSE(planned(long_unrolled).reserved) << "no step of such a length was recorded";
  const ChipGroup worst = planned(long_unrolled).estimate.fit.worst();
  EXPECT_EQ(worst.least_needed(), worst.state + hw::find_chip("v6e").code_bytes_least) << "much may be made again";
  EXPECT_FALSE(planned({}, test_assumptions("v5e:2x2")).reserved) << "its file says nothing";
  Assumptions own_kernels = test_assumptions("v6e:2x2");
  own_kernels.slice.chip.reserved_per_alive = 0;
  EXPECT_FALSE(planned({}, own_kernels).reserved);
}

// A TPU of the user's own, as hardware is named: with what its file says of a step's memory beside what it must.
std::string users_tpu(const testing_support::TemporaryFolder& folder, const std::string& of_memory) {
  const std::filesystem::path file = folder / "ours.yaml";
  base::write_file_atomically(
      file,
      "title: A chip of ours\nkind: tpu\n"
      "memory: {nominal: 32GiB, usable: 31GiB, alignment: 512, bandwidth: 1e12" +
          of_memory +
          "}\n"
          "compute: {bf16: 100e12}\n"
          "links:\n  - {name: ici, scope: slice, bytes_per_second: 100e9, ports: 4, latency: 1e-6}\n"
          "slices: {shape: torus, valid: [2x2], host: 2x2}\n");
  return file.string() + ":2x2";
}

constexpr const char* kBothWays[] = {"xla.loops=on", "xla.loops=off"};

TEST(ReservedBytesTest, AUsersChipWithoutARuleIsJudgedByTheGapsOfItsFileBothWays) {
  const testing_support::TemporaryFolder folder;
  const Assumptions assumptions =
      test_assumptions(users_tpu(folder, ", code_least: 10e6, code_most: 20e6, gaps_most: 1.5, gaps_least: 0.5"));
  for (const char* loops : kBothWays) {
    const Planned plan = planned({loops}, assumptions);
    EXPECT_FALSE(plan.reserved) << loops;
    const ChipGroup worst = plan.estimate.fit.worst();
    EXPECT_EQ(worst.needed(), worst.planned + 20'000'000) << loops;
    EXPECT_EQ(worst.least_needed(), std::max(times(0.5, worst.planned), worst.state) + 10'000'000) << loops;
    EXPECT_EQ(worst.most_needed(), times(1.5, worst.planned) + 20'000'000) << loops;
  }
}

// Nothing is taken from a chip that is known better: the plan alone is left.
TEST(ReservedBytesTest, AUsersChipOfWhichNothingIsKnownIsJudgedByThePlanBothWays) {
  const testing_support::TemporaryFolder folder;
  const std::string hardware = users_tpu(folder, "");
  for (const char* loops : kBothWays) {
    const Planned plan = planned({loops}, test_assumptions(hardware));
    EXPECT_FALSE(plan.reserved) << loops;
    const ChipGroup worst = plan.estimate.fit.worst();
    EXPECT_FALSE(worst.has_range()) << loops;
    EXPECT_EQ(worst.least_needed(), worst.planned) << loops;
    EXPECT_EQ(worst.most_needed(), worst.planned) << loops;
    const auto verdict = [&](int64_t limit) {
      return planned({loops}, test_assumptions(hardware, limit)).estimate.fit.verdict();
    };
    EXPECT_EQ(verdict(worst.planned), FitVerdict::fits) << loops;
    EXPECT_EQ(verdict(worst.planned - 1), FitVerdict::does_not_fit) << loops;
  }
}

TEST(ReservedBytesTest, AUsersChipWithARuleHasItsOwnNumbersBothWays) {
  const testing_support::TemporaryFolder folder;
  const Assumptions assumptions =
      test_assumptions(users_tpu(folder,
                                 ", reserved_per_alive: 1.1, alive_blocks: 3, code_base: 2e6, code_per_block: 30e6, "
                                 "reserved_off_most: 0.2, unrolled_per_alive: 1.2, unrolled_code_per_block: 40e6, "
                                 "unrolled_off_most: 0.4"));
  const Planned looped = planned({"xla.loops=on"}, assumptions), unrolled = planned({"xla.loops=off"}, assumptions);
  ASSERT_TRUE(looped.reserved && unrolled.reserved);
  EXPECT_EQ(looped.reserved->gaps, times(1.1 - 1, looped.reserved->alive()));
  EXPECT_EQ(looped.reserved->code, 2'000'000 + 2 * 30'000'000);
  EXPECT_EQ(looped.reserved->off_most, 0.2);
  EXPECT_EQ(unrolled.reserved->gaps, times(1.2 - 1, unrolled.reserved->alive()));
  EXPECT_EQ(unrolled.reserved->code, 2'000'000 + 8 * 40'000'000);
  EXPECT_EQ(unrolled.reserved->off_most, 0.4);
}

}  // namespace
}  // namespace megacpp::fit
