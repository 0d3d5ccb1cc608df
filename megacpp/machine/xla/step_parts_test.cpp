// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/step_parts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/assumptions.h"

namespace megacpp::runtime::xla {
namespace {

using ByLetter = std::map<char, int64_t>;

// Of a width that every part of a weight fills whole tiles of the chip with, so that nothing is padded.
constexpr int64_t kStreamWidth = 512, kVocabulary = 256, kInnerWidth = 352, kSequenceLength = 2048;
constexpr int64_t kQueryHeads = 4, kQueryWidth = 4 * 32, kKeyWidth = 2 * 32;  // of nam52-tiny
constexpr int64_t kBlocksOfALetter = 2, kDataChips = 4;

// Two AE pairs on four chips, a sequence each. Sequences are long enough that the micro-step has the peak.
StepParts parts_with(const std::vector<std::string>& more = {}, const char* hardware = "v6e:2x2") {
  std::vector<std::string> settings = {"model.pattern=AE",
                                       "model.depth=4",
                                       "model.hidden=" + std::to_string(kStreamWidth),
                                       "train.precision=bf16",
                                       "train.batch=4",
                                       "train.micro_steps=1",
                                       "train.sequence=" + std::to_string(kSequenceLength),
                                       "layout.data_parallel=" + std::to_string(kDataChips),
                                       "layout.zero=3",
                                       "train.recompute.A=none",
                                       "train.recompute.E=none"};
  settings.insert(settings.end(), more.begin(), more.end());
  const recipe::Recipe recipe = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings);
  const fit::Assumptions assumptions = testing_support::test_assumptions(hardware);
  const schedule::Target target = fit::target_on(assumptions);
  const plan::PlannedRecipe planned(recipe);
  const compile::Compiled compiled = compile::compile_training(planned.plan(), target);
  return step_parts({planned, compiled, target}, hw::device_of(assumptions.slice.chip)).value();
}

constexpr int64_t f32_bytes(int64_t elements) { return 4 * elements; }

// Elements of what a block multiplies by: queries, keys, values and output; gate, up and down.
constexpr int64_t attention_matrices(int64_t hidden) { return 2 * hidden * (kQueryWidth + kKeyWidth); }
constexpr int64_t feed_forward_matrices(int64_t hidden) { return 3 * hidden * kInnerWidth; }

/// Whole, with the norm of each block.
ByLetter whole_block_weights(int64_t blocks_of_a_letter, int64_t hidden) {
  return {{'A', f32_bytes(blocks_of_a_letter * (hidden + attention_matrices(hidden)))},
          {'E', f32_bytes(blocks_of_a_letter * (hidden + feed_forward_matrices(hidden)))}};
}

constexpr int64_t kTableElements = kVocabulary * kStreamWidth;  // of the embedding, and of the head
constexpr int64_t kWholeOutside = f32_bytes(2 * kTableElements + kStreamWidth);

int64_t causal_scores(int64_t heads) { return heads * kSequenceLength * (kSequenceLength + 1) / 2; }

int64_t all_block_weights(int64_t blocks_of_a_letter, int64_t hidden) {
  const ByLetter whole = whole_block_weights(blocks_of_a_letter, hidden);
  return whole.at('A') + whole.at('E');
}

TEST(StepPartsTest, WeightsOfBlocksAreCountedAsStored) {
  const int64_t whole = all_block_weights(kBlocksOfALetter, kStreamWidth);
  for (const char* zero : {"layout.zero=0", "layout.zero=1", "layout.zero=2"})
    EXPECT_EQ(parts_with({zero}).block_weights, whole) << zero;
  EXPECT_EQ(parts_with().block_weights, whole / kDataChips);
}

TEST(StepPartsTest, BlocksThatRecomputeNothingKeepWeightsThatAreNotGathered) {
  const ByLetter whole = whole_block_weights(kBlocksOfALetter, kStreamWidth);
  EXPECT_EQ(parts_with({"layout.zero=1"}).kept_weights, (whole.at('A') + whole.at('E')) / 2);
  EXPECT_EQ(parts_with({"layout.zero=1", "train.recompute.E=full"}).kept_weights, whole.at('A') / 2);
  EXPECT_EQ(parts_with().kept_weights, 0);
}

// Copies of weights are no values that blocks keep.
TEST(StepPartsTest, WhatBlocksKeepIsWithoutWeightsAndLessWhereFusionsMakeItAgain) {
  const StepParts looped = parts_with(), unrolled = parts_with({"xla.loops=off"});
  EXPECT_EQ(parts_with({"layout.zero=1"}).kept, looped.kept);
  EXPECT_EQ(looped.kept_of_block, looped.kept / (2 * kBlocksOfALetter));
  EXPECT_EQ(unrolled.kept, parts_with({"train.recompute.E=selective"}).kept) << "elementwise work of feed-forwards";
  EXPECT_LT(unrolled.kept, looped.kept);
  const StepParts full = parts_with({"train.recompute.A=full", "train.recompute.E=full"});
  EXPECT_LT(full.kept, looped.kept / 2);
  EXPECT_EQ(full.kept_of_block, looped.kept_of_block) << "as if nothing were recomputed";
  EXPECT_EQ(parts_with({"xla.loops=off", "train.batch=8"}).kept, parts_with({"train.batch=8"}).kept)
      << "two sequences a chip, weights gathered twice";
}

TEST(StepPartsTest, OutsideBlocksAreTableHeadAndLastNorm) {
  EXPECT_EQ(parts_with({"layout.zero=0"}).outside_weights, kWholeOutside);
  EXPECT_EQ(parts_with({"layout.zero=1"}).outside_weights, kWholeOutside);
  EXPECT_EQ(parts_with({"layout.zero=0"}).outside_state, 3 * kWholeOutside) << "and two moments";
  EXPECT_EQ(parts_with().outside_weights, kWholeOutside / kDataChips);
  EXPECT_EQ(parts_with({"layout.zero=0", "model.tie_embeddings=true"}).outside_weights,
            f32_bytes(kTableElements + kStreamWidth));
}

TEST(StepPartsTest, LogitsAreOfAllSequencesAndTheHeadsWeightIsGathered) {
  const int64_t logits = 2 * kSequenceLength * kVocabulary;  // of a sequence, in bf16
  for (const char* zero : {"layout.zero=0", "layout.zero=3"}) {
    const StepParts one = parts_with({zero}), two = parts_with({zero, "train.batch=8"});
    EXPECT_EQ(one.logits, logits) << zero;
    EXPECT_EQ(two.logits, 2 * logits) << zero;
    EXPECT_EQ(one.head_weight, f32_bytes(kTableElements)) << zero;
    EXPECT_EQ(two.head_weight, f32_bytes(kTableElements)) << zero;
  }
  const StepParts tied = parts_with({"model.tie_embeddings=true"});
  EXPECT_EQ(tied.logits, logits);
  EXPECT_EQ(tied.head_weight, f32_bytes(kTableElements)) << "the table, transposed";
}

TEST(StepPartsTest, ScoresAreOfOneAttentionAndAllSequencesOfTheChip) {
  const StepParts one = parts_with(), two = parts_with({"train.batch=8"});
  EXPECT_EQ(one.scores, causal_scores(kQueryHeads));
  EXPECT_EQ(two.scores, 2 * causal_scores(kQueryHeads));
  EXPECT_EQ(two.block_scores, 2 * one.block_scores);
  EXPECT_EQ(one.scores_at_once, one.block_scores) << "blocks of queries come one after the other";
  constexpr int64_t kBlock = kSequenceLength / 4;  // of queries
  const StepParts again = parts_with({"train.recompute.A=full"});
  EXPECT_EQ(again.scores_at_once, kQueryHeads * (1 + 2 + 3 + 4) * kBlock * kBlock) << "its second forward pass's";
  const StepParts none = parts_with({"model.pattern=E"});
  EXPECT_EQ(none.scores, 0) << "what a gate computes is no score";
}

TEST(StepPartsTest, ScoresAreOfTheLetterThatHasTheMost) {
  const auto beside_a = [](const std::string& heads) {
    return parts_with(
        {"model.pattern=AGE", "model.depth=3", "model.letters.G.family=A", "model.letters.G.attention.heads=" + heads});
  };
  const StepParts fewer = beside_a("2"), more = beside_a("8");
  EXPECT_EQ(fewer.scores, causal_scores(kQueryHeads));
  EXPECT_EQ(more.scores, causal_scores(8));
}

TEST(StepPartsTest, WhatIsGatheredDependsOnTheLevelOfZero) {
  struct Case {
    const char* zero;
    bool gathers_weights, gathers_updates;
  };
  const std::vector<Case> cases = {{"0", false, false}, {"1", false, true}, {"2", false, true}, {"3", true, false}};
  for (const Case& c : cases) {
    const std::string zero = std::string("layout.zero=") + c.zero;
    const StepParts parts = parts_with({zero});
    EXPECT_EQ(parts.gathers_weights, c.gathers_weights) << c.zero;
    EXPECT_EQ(parts.gathers_updates, c.gathers_updates) << c.zero;
    EXPECT_TRUE(parts.reduces_gradients) << c.zero;
    const StepParts alone = parts_with({zero, "layout.data_parallel=1"});
    EXPECT_FALSE(alone.gathers_weights || alone.gathers_updates) << c.zero << ": one chip has all";
    EXPECT_FALSE(alone.reduces_gradients) << c.zero;
  }
}

// Of one micro-step gradients are scattered as the backward pass makes them; of several, below level 2, the update
// reduces their sums.
TEST(StepPartsTest, GradientsOfAnUpdateAreWholeWhereTheirReductionWaits) {
  const ByLetter blocks = whole_block_weights(kBlocksOfALetter, kStreamWidth);
  const int64_t whole = blocks.at('A') + blocks.at('E') + kWholeOutside;
  EXPECT_EQ(parts_with({"layout.zero=0"}).all_gradients, whole);
  EXPECT_EQ(parts_with({"layout.zero=1"}).all_gradients, whole / kDataChips);
  EXPECT_EQ(parts_with({"layout.zero=1", "train.micro_steps=2"}).all_gradients, whole);
  EXPECT_EQ(parts_with({"layout.zero=2", "train.micro_steps=2"}).all_gradients, whole / kDataChips);
}

// Of a stream of 512 four chips update 128 rows or columns each, which are whole tiles; of 400 they have 100, which are
// not.
TEST(StepPartsTest, WeightsAreCopiedWhereTheirPartsFillTiles) {
  const auto copied = [](const char* hidden) {
    const StepParts parts = parts_with({"layout.zero=1", std::string("model.hidden=") + hidden});
    return static_cast<double>(parts.copied_weights) / static_cast<double>(parts.block_weights + parts.outside_weights);
  };
  EXPECT_EQ(copied("512"), 1);
  EXPECT_LT(copied("400"), 0.6);
  const StepParts sharded = parts_with();
  EXPECT_EQ(sharded.copied_weights, sharded.block_weights + sharded.outside_weights);
}

// Chips of data and expert parallelism have sequences of their own, those of context parallelism parts of one.
TEST(StepPartsTest, SequencesAreThoseOfOneChipInAMicroStep) {
  EXPECT_EQ(parts_with().sequences, 1);
  EXPECT_EQ(parts_with({"train.batch=8", "train.micro_steps=2"}).sequences, 2);
  const StepParts split = parts_with({"layout.data_parallel=2", "layout.context_parallel=2"});
  EXPECT_EQ(split.sequences, 2);
  const StepParts experts = parts_with({"layout.data_parallel=2", "layout.expert_parallel=2",
                                        "model.feed_forward.experts=4", "model.feed_forward.top_k=2"});
  EXPECT_EQ(experts.sequences, 1);
}

// Products have norms whole and half of every matrix and table; a chip stores half of that again.
TEST(StepPartsTest, WithTensorParallelismZero3GathersWhatProductsHave) {
  const StepParts parts = parts_with({"layout.data_parallel=2", "layout.tensor_parallel=2"});
  const int64_t norms = (2 * kBlocksOfALetter + 1) * kStreamWidth;
  const int64_t matrices = kBlocksOfALetter * (attention_matrices(kStreamWidth) + feed_forward_matrices(kStreamWidth));
  const int64_t computed = f32_bytes(norms + (matrices + 2 * kTableElements) / 2);
  EXPECT_EQ(parts.computed_weights, computed);
  EXPECT_EQ(parts.block_weights + parts.outside_weights, computed / 2);
  EXPECT_TRUE(parts.gathers_weights);
  EXPECT_EQ(parts.sequences, 2);
  EXPECT_EQ(parts.logits, 2 * 2 * kSequenceLength * kVocabulary / 2) << "of half of the vocabulary";
  EXPECT_EQ(parts.head_weight, f32_bytes(kTableElements / 2));
  EXPECT_EQ(parts.scores, 2 * causal_scores(kQueryHeads / 2));
}

// Without it weights are as products have them at every level.
TEST(StepPartsTest, ComputedWeightsAreWholeAtEveryLevelOfZero) {
  const ByLetter blocks = whole_block_weights(kBlocksOfALetter, kStreamWidth);
  for (const char* zero : {"layout.zero=0", "layout.zero=1", "layout.zero=3"})
    EXPECT_EQ(parts_with({zero}).computed_weights, blocks.at('A') + blocks.at('E') + kWholeOutside) << zero;
}

// Short sequences of a step whose update has the most alive: the plan's peak says nothing of the micro-step.
TEST(StepPartsTest, WhereAnUpdateHasThePeakWeightsAndLogitsAreTheMicroSteps) {
  const int64_t hidden = 128, length = 16;
  const StepParts parts = parts_with({"model.hidden=128", "model.depth=8", "layout.zero=1", "train.micro_steps=2",
                                      "train.sequence=16", "train.recompute.A=full", "train.recompute.E=full"});
  EXPECT_EQ(parts.block_weights, all_block_weights(4, hidden));
  EXPECT_EQ(parts.outside_weights, f32_bytes(2 * kVocabulary * hidden + hidden));
  EXPECT_EQ(parts.logits, 2 * length * kVocabulary);
  EXPECT_EQ(parts.scores, kQueryHeads * length * (length + 1) / 2);
  EXPECT_GE(parts.gradients, parts.all_gradients) << "sums of earlier micro-steps";
}

TEST(StepPartsTest, Bf16TakesHalf) { EXPECT_EQ(in_bf16(f32_bytes(100)), 200); }

}  // namespace
}  // namespace megacpp::runtime::xla
