// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/stacked_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/assumptions.h"

namespace megacpp::runtime::xla {
namespace {

constexpr int64_t kBlocks = 4, kTokens = 64, kBf16 = 2, kF32 = 4;

// Dense feed-forward blocks on four chips, a sequence each.
recipe::Recipe feed_forward(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"model.pattern=E",
                                       "model.depth=" + std::to_string(kBlocks),
                                       "model.feed_forward.experts=0",
                                       "train.precision=bf16",
                                       "train.batch=4",
                                       "train.micro_steps=1",
                                       "train.sequence=" + std::to_string(kTokens),
                                       "layout.data_parallel=4",
                                       "layout.zero=3",
                                       "train.recompute.E=none"};
  settings.insert(settings.end(), more.begin(), more.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings);
}

int64_t stacked(const recipe::Recipe& recipe) {
  return stacked_bytes(recipe, fit::target_on(testing_support::test_assumptions("v6e:2x2")));
}

int64_t intermediate(const recipe::Recipe& recipe) { return recipe.model.config<blocks::FeedForward>().intermediate; }

// The block's input and its normalized form; of SwiGLU both products, the gate's logistic and two products with it; a
// number of every token for the norm.
TEST(StackedBytesTest, AFeedForwardBlockLeavesWhatItsGradientReads) {
  const recipe::Recipe recipe = feed_forward();
  const int64_t wide = 5 * intermediate(recipe), narrow = 2 * recipe.model.hidden;
  EXPECT_EQ(stacked(recipe), kBlocks * kTokens * (kBf16 * (wide + narrow) + kF32));
}

TEST(StackedBytesTest, ABlockThatRecomputesAllLeavesItsInput) {
  const recipe::Recipe recipe = feed_forward({"train.recompute.E=full"});
  EXPECT_EQ(stacked(recipe), kBlocks * kTokens * kBf16 * recipe.model.hidden);
}

// Gathered weights are gathered again; where a chip has them whole blocks keep what they converted.
TEST(StackedBytesTest, BelowZero3CopiesOfWeightsAreLeftToo) {
  const recipe::Recipe recipe = feed_forward({"layout.zero=1"});
  const int64_t matrices = 3 * recipe.model.hidden * intermediate(recipe), norm = recipe.model.hidden;
  EXPECT_EQ(stacked(recipe) - stacked(feed_forward()), kBlocks * kBf16 * (matrices + norm));
}

TEST(StackedBytesTest, EveryBlockLeavesAsMuch) {
  EXPECT_EQ(stacked(feed_forward({"model.depth=40"})), 10 * stacked(feed_forward()));
  EXPECT_EQ(stacked(feed_forward({"model.depth=1"})), stacked(feed_forward()) / kBlocks) << "nothing repeats";
}

}  // namespace
}  // namespace megacpp::runtime::xla
