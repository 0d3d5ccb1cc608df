// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/candidates.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/plan/plan.h"
#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

using testing_support::test_recipe;
using Degrees = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;

Degrees degrees_of(const LayoutChoice& c) { return {c.data, c.expert, c.context, c.tensor, c.pipeline}; }

bool is_legal(const recipe::Recipe& recipe, const LayoutChoice& choice) {
  try {
    plan::make_plan(with_changes(recipe, changes_for(recipe, choice)));
    return true;
  } catch (const base::Error&) {
    return false;
  }
}

/// Every product, tried at the gates with the largest batch there is.
std::set<Degrees> by_brute_force(const recipe::Recipe& recipe, int64_t chips) {
  std::set<Degrees> legal;
  for (int64_t data = 1; data <= chips; ++data)
    for (int64_t expert = 1; expert <= chips; ++expert)
      for (int64_t tensor = 1; tensor <= chips; ++tensor)
        for (int64_t pipeline = 1; pipeline <= chips; ++pipeline) {
          if (data * expert * tensor * pipeline != chips) continue;
          const LayoutChoice choice{.data = data,
                                    .expert = expert,
                                    .tensor = tensor,
                                    .pipeline = pipeline,
                                    .batch = recipe.train.batch * recipe.train.micro_steps};
          if (is_legal(recipe, choice)) legal.insert(degrees_of(choice));
        }
  return legal;
}

TEST(CandidatesTest, AreThoseTheGatesLetPass) {
  for (const int64_t chips : {1, 2, 4, 6, 8, 12})
    for (const char* other : {"train.micro_steps=1", "model.feed_forward.experts=6", "layout.policy=fsdp"}) {
      const recipe::Recipe recipe = test_recipe({other});
      std::set<Degrees> found;
      for (const LayoutChoice& choice : legal_layouts(recipe, chips, SplitSequences::no).legal) {
        EXPECT_TRUE(is_legal(recipe, choice)) << chips << " " << other;
        found.insert(degrees_of(choice));
      }
      EXPECT_EQ(found, by_brute_force(recipe, chips)) << chips << " " << other;
    }
}

TEST(CandidatesTest, KeepTheGlobalBatchAndComeOnce) {
  const recipe::Recipe recipe = test_recipe({"train.micro_steps=3"});
  const Candidates candidates = legal_layouts(recipe, 8, SplitSequences::no);
  for (size_t i = 0; i < candidates.legal.size(); ++i) {
    const LayoutChoice& choice = candidates.legal[i];
    EXPECT_EQ(choice.batch * choice.micro_steps, 24);
    EXPECT_EQ(choice.data * choice.expert * choice.context * choice.tensor * choice.pipeline, 8);
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(choice == candidates.legal[j]);
  }
}

TEST(CandidatesTest, LevelsOfZeroAreThoseThatDiffer) {
  const Candidates candidates = legal_layouts(test_recipe({"model.depth=1"}), 2, SplitSequences::no);
  const auto levels = [&candidates](int64_t data, int64_t tensor, int64_t micro_steps) {
    std::set<int64_t> found;
    for (const LayoutChoice& c : candidates.legal)
      if (c.data == data && c.tensor == tensor && c.micro_steps == micro_steps) found.insert(c.zero);
    return found;
  };
  EXPECT_EQ(levels(2, 1, 1), (std::set<int64_t>{0, 1, 3}));
  EXPECT_EQ(levels(2, 1, 2), (std::set<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(levels(1, 2, 2), (std::set<int64_t>{1})) << "nobody holds a copy";
}

TEST(CandidatesTest, EveryProductIsLegalOrCountedWithItsReason) {
  const Candidates candidates = legal_layouts(test_recipe(), 8, SplitSequences::no);
  std::set<Degrees> legal;
  for (const LayoutChoice& choice : candidates.legal) legal.insert(degrees_of(choice));
  int64_t dropped = 0;
  for (const Dropped& one : candidates.dropped) dropped += one.layouts;
  EXPECT_EQ(candidates.considered, dropped + static_cast<int64_t>(legal.size()));
  EXPECT_EQ(candidates.considered, 35);  // ways to write 8 as a product of five
}

TEST(CandidatesTest, PipelinesAreLeftOutWhereTheBackendRunsNone) {
  const auto no_stages = [](const recipe::Recipe& recipe) -> std::optional<recipe::Unsupported> {
    if (recipe.layout.pipeline_parallel == 1) return std::nullopt;
    return recipe::Unsupported{.setting = "", .reason = "no stages here", .instead = ""};
  };
  const Candidates candidates = legal_layouts(test_recipe(), 8, SplitSequences::no, no_stages);
  ASSERT_FALSE(candidates.legal.empty());
  for (const LayoutChoice& choice : candidates.legal) EXPECT_EQ(choice.pipeline, 1);
  const auto at = std::ranges::find(candidates.dropped, "the backend cannot run it: no stages here", &Dropped::reason);
  ASSERT_NE(at, candidates.dropped.end());
  EXPECT_EQ(at->layouts, 15);  // 35 products of five, 20 of four
}

TEST(CandidatesTest, SequencesAreSplitOnlyIntoRunsWorthIt) {
  const recipe::Recipe recipe = test_recipe({"train.sequence=1024"});
  int64_t longest = 1;
  for (const LayoutChoice& choice : legal_layouts(recipe, 8, SplitSequences::yes).legal)
    longest = std::max(longest, choice.context);
  EXPECT_EQ(longest, 4);
}

TEST(CandidatesTest, OnlyWhatDiffersIsSet) {
  const recipe::Recipe recipe = test_recipe({"layout.zero=1"});
  EXPECT_TRUE(changes_for(recipe, {.batch = 8}).empty());
  const plan::Changes changes =
      changes_for(recipe, {.data = 2, .zero = 3, .batch = 8, .recompute = recipe::RecomputeLevel::full});
  const plan::Changes wanted = {{"layout.data_parallel", "2"},
                                {"layout.zero", "3"},
                                {"train.recompute.A", "full"},
                                {"train.recompute.E", "full"}};
  EXPECT_EQ(changes, wanted);
}

// A reason says what was not tried, and why.
TEST(CandidatesTest, ReasonsSayWhatWasNotTriedAndWhy) {
  const auto reasons = [](const std::vector<std::string>& settings) {
    std::string all;
    for (const Dropped& one : legal_layouts(testing_support::test_recipe(settings), 8, SplitSequences::no).dropped)
      all += one.reason + "\n";
    return all;
  };
  EXPECT_NE(reasons({}).find("context_parallel above 1, not tried below 16384 tokens of a sequence\n"),
            std::string::npos);
  EXPECT_NE(reasons({}).find("expert_parallel that does not divide 4 experts\n"), std::string::npos) << reasons({});
  const std::string dense = reasons({"model.feed_forward.experts=0"});
  EXPECT_NE(dense.find("expert_parallel above 1, and the model has no experts\n"), std::string::npos) << dense;
}

}  // namespace
}  // namespace megacpp::fit
