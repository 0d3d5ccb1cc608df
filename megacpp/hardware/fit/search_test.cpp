// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/plan/policy.h"
#include "megacpp/program/recipe/recompute.h"
#include "tests/support/assumptions.h"
#include "tests/support/reserving.h"

namespace megacpp::fit {
namespace {

using testing_support::test_assumptions;
using testing_support::test_recipe;

/// Everything that a search may compile.
std::vector<Found> all_of(const recipe::Recipe& recipe, const Assumptions& assumptions) {
  std::vector<Found> found;
  for (LayoutChoice choice : legal_layouts(recipe, assumptions.slice.devices(), SplitSequences::no).legal)
    for (const recipe::RecomputeLevel level : kRecomputeLevels) {
      choice.recompute = level;
      found.push_back(compile_candidate(recipe, changes_for(recipe, choice), assumptions));
    }
  return found;
}

double fastest_fit(const std::vector<Found>& found) {
  double seconds = INFINITY;
  for (const Found& one : found)
    if (one.fit.fits()) seconds = std::min(seconds, one.time.seconds());
  return seconds;
}

int64_t least_bytes(const std::vector<Found>& found) {
  int64_t bytes = INT64_MAX;
  for (const Found& one : found) bytes = std::min(bytes, one.needed());
  return bytes;
}

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t d = 1; d <= number; ++d)
    if (number % d == 0) found.push_back(d);
  return found;
}

enum class ContextDegrees : uint8_t { one, all };

/// As many chips as there are, in every way that degrees multiply to them.
std::vector<plan::Changes> products_of(int64_t chips, ContextDegrees context) {
  std::vector<plan::Changes> products;
  const std::vector<int64_t> divisors = divisors_of(chips);
  for (const int64_t data : divisors)
    for (const int64_t expert : divisors)
      for (const int64_t sequence : context == ContextDegrees::all ? divisors : std::vector<int64_t>{1})
        for (const int64_t tensor : divisors)
          for (const int64_t pipeline : divisors) {
            if (data * expert * sequence * tensor * pipeline != chips) continue;
            products.push_back({{"layout.data_parallel", std::to_string(data)},
                                {"layout.expert_parallel", std::to_string(expert)},
                                {"layout.context_parallel", std::to_string(sequence)},
                                {"layout.tensor_parallel", std::to_string(tensor)},
                                {"layout.pipeline_parallel", std::to_string(pipeline)}});
          }
  return products;
}

/// Everything there is, without asking the search what that is: all products with every level of ZeRO, micro-steps and
/// recompute; what is refused is skipped.
std::vector<Found> tried_one_by_one(const recipe::Recipe& recipe, const Assumptions& assumptions,
                                    ContextDegrees context) {
  const int64_t global_batch = recipe.train.batch * recipe.train.micro_steps;
  std::vector<Found> found;
  for (const plan::Changes& product : products_of(assumptions.slice.devices(), context))
    for (const char* zero : {"0", "1", "2", "3"})
      for (const int64_t micro_steps : divisors_of(global_batch))
        for (const char* level : {"none", "selective", "full"}) {
          plan::Changes changes = product;
          changes.push_back({"layout.zero", zero});
          changes.push_back({"train.batch", std::to_string(global_batch / micro_steps)});
          changes.push_back({"train.micro_steps", std::to_string(micro_steps)});
          changes.push_back({"train.recompute", level});
          try {
            found.push_back(compile_candidate(recipe, changes, assumptions));
          } catch (const base::Error& error) {
            EXPECT_NE(base::class_of(error.code()), base::ErrorClass::internal) << error.what();
          }
        }
  return found;
}

/// A model on hardware, and how much of the memory its smallest layout needs there is; 0: of the hardware's own.
struct Space {
  const char* name;
  std::vector<std::string> overrides;
  const char* hardware;
  double limit;
};

void PrintTo(const Space& space, std::ostream* out) { *out << space.name; }

// Dense models and experts, in f32 and bf16, shallow and with few sequences, so that everything there is can be
// compiled beside the search; with memory for all, and with limits that only some layouts meet.
const Space kSpaces[] = {
    {"experts", {"model.depth=2", "train.batch=2"}, "host:2", 0},
    {"experts_in_little_memory", {"model.depth=2", "train.batch=2"}, "host:2", 1.3},
    {"bf16_in_least_memory", {"model.depth=2", "train.batch=2", "train.precision=bf16"}, "host:2", 1.05},
    {"dense_in_little_memory",
     {"model.depth=1", "model.pattern=E", "train.batch=4", "model.feed_forward.experts=0"},
     "host:2",
     1.5},
    {"attention_in_many_micro_steps",
     {"model.depth=1", "model.pattern=A", "train.batch=1", "train.micro_steps=4"},
     "host:2",
     1.2},
    {"experts_on_four_chips", {"model.depth=1", "model.pattern=E", "train.batch=4"}, "host:4", 2},
    {"experts_on_tpus", {"model.depth=1", "model.pattern=E", "train.batch=4", "train.precision=bf16"}, "v6e:2x2", 0},
    {"attention_on_gpus", {"model.depth=1", "model.pattern=A", "train.batch=4", "train.precision=bf16"}, "h100:4", 0},
    {"experts_on_tpus_in_little_memory",
     {"model.depth=1", "model.pattern=E", "train.batch=4", "train.precision=bf16"},
     "v6e:2x2",
     12},
    {"attention_on_gpus_in_little_memory",
     {"model.depth=1", "model.pattern=A", "train.batch=4", "train.precision=bf16"},
     "h100:4",
     1.5},
    {"one_chip", {"model.depth=3", "train.batch=1", "train.micro_steps=2"}, "host:1", 1.1},
    {"dense_bf16_in_little_memory",
     {"model.depth=2", "model.feed_forward.experts=0", "train.batch=2", "train.precision=bf16"},
     "host:2",
     1.5},
    {"sequences_that_may_be_split",
     {"model.depth=1", "model.pattern=A", "train.batch=2", "train.sequence=1024", "layout.context_parallel=4"},
     "host:4",
     0},
};

class SpacesTest : public testing::TestWithParam<Space> {};

// Where no chip holds a copy of what another holds, ZeRO 2 and 3 are not tried: they are ZeRO 1 but for when sums over
// tensor-parallel chips are taken, which is this much of a step at most, and one gradient of these small models.
constexpr double kAlike = 1.005, kAlikeBytes = 1.05;

bool splits_sequences(const Found& one) { return one.recipe.layout.context_parallel > 1; }

// Nothing but what was compiled can be the best, and nothing was left. Short sequences are not split where the recipe
// does not ask for it: with memory for all that would not be faster.
TEST_P(SpacesTest, TheFirstChoiceIsThatOfTryingEverything) {
  const Space& space = GetParam();
  const recipe::Recipe recipe = test_recipe(space.overrides);
  const bool may_split = recipe.layout.context_parallel > 1;
  std::vector<Found> all = tried_one_by_one(recipe, test_assumptions(space.hardware),
                                            may_split || space.limit == 0 ? ContextDegrees::all : ContextDegrees::one);
  std::vector<Found> split;
  if (!may_split) {
    std::ranges::copy_if(all, std::back_inserter(split), splits_sequences);
    std::erase_if(all, splits_sequences);
  }
  ASSERT_FALSE(all.empty());
  const auto limit = static_cast<int64_t>(space.limit * static_cast<double>(least_bytes(all)));
  for (Found& one : all)
    for (ChipGroup& group : one.fit.groups)
      if (limit > 0) group.limit = {.bytes = limit};
  const LayoutSearch search = search_layouts(recipe, test_assumptions(space.hardware, limit), {.with_auto = 0});
  ASSERT_TRUE(search.fits());
  EXPECT_TRUE(search.is_complete());
  ASSERT_LE(std::ssize(search.found), kSmallSpace);
  const double best = search.found.front().time.seconds();
  EXPECT_LE(best, kAlike * fastest_fit(all)) << search.found.front().layout;
  EXPECT_GE(best, fastest_fit(all) * (1 - 1e-12)) << "which is a layout that was not tried one by one";
  EXPECT_LE(best, fastest_fit(split)) << search.found.front().layout;
  // What was discarded without being compiled does not fit, and what was left out is like something that was not.
  for (const Found& one : all) {
    const auto is_no_worse = [&one](const Found& other) {
      return other.fit.fits() &&
             static_cast<double>(other.needed()) <= kAlikeBytes * static_cast<double>(one.needed()) &&
             other.time.seconds() <= kAlike * one.time.seconds();
    };
    if (one.fit.fits()) {
      EXPECT_TRUE(std::ranges::any_of(search.found, is_no_worse)) << one.layout;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Search, SpacesTest, testing::ValuesIn(kSpaces),
                         [](const auto& space) { return std::string(space.param.name); });

// No layout needs less than what speaks against one for good, by the least that verdicts count with.
TEST(SearchTest, NoPlanIsBelowItsLeastBytes) {
  const auto expect_above_least = [](const char* hardware, const std::vector<std::string>& more) {
    std::vector<std::string> settings = {"model.depth=2", "train.batch=4", "train.precision=bf16"};
    settings.insert(settings.end(), more.begin(), more.end());
    for (const Found& one :
         search_layouts(test_recipe(settings), test_assumptions(hardware), {.tries = 24, .with_auto = 0}).found) {
      EXPECT_GT(one.quick_estimate.least, 0) << hardware << " " << one.layout;
      EXPECT_LE(one.quick_estimate.least, static_cast<double>(one.fit.worst().reservation.least))
          << hardware << " " << one.layout;
    }
  };
  expect_above_least("host:4", {});
  expect_above_least("host:4", {"model.tie_embeddings=true", "train.batch=2", "train.micro_steps=2"});
  expect_above_least("v6e:2x2", {});
  expect_above_least("v6e:2x2", {"model.tie_embeddings=true"});
  expect_above_least("h100:4", {});
}

// With fewer tries than layouts too: the answer is never slower than what the recipe has, and says what was left.
TEST(SearchTest, TheRecipesOwnLayoutIsAmongWhatIsCompiled) {
  const recipe::Recipe recipe = test_recipe({"model.depth=2", "train.batch=4", "train.micro_steps=2",
                                             "layout.data_parallel=2", "layout.pipeline_parallel=2", "layout.zero=1"});
  const LayoutSearch search = search_layouts(recipe, test_assumptions("host:4"), {.tries = 4, .with_auto = 0});
  EXPECT_TRUE(std::ranges::any_of(search.found, [&](const Found& one) { return one.recipe.layout == recipe.layout; }));
  EXPECT_FALSE(search.is_complete());
  EXPECT_GT(search.left, 0);
}

// Nothing is given up while there are tries: what is estimated slowest is compiled last, not never.
TEST(SearchTest, EveryTryIsUsed) {
  const recipe::Recipe recipe = test_recipe({"model.depth=1", "model.pattern=A", "train.batch=4"});
  const LayoutSearch search = search_layouts(recipe, test_assumptions("host:4"), {.with_auto = 0});
  ASSERT_TRUE(search.is_complete());
  const int64_t most = std::ssize(search.found) - 1;
  const LayoutSearch less = search_layouts(recipe, test_assumptions("host:4"), {.tries = most, .with_auto = 0});
  EXPECT_EQ(std::ssize(less.found), most);
  EXPECT_EQ(less.left, 1);
}

std::set<std::string> levels_of(const recipe::Recipe& recipe) {
  std::set<std::string> levels;
  for (const char letter : recipe::recompute_letters(recipe.model))
    levels.emplace(base::text_of(recipe::recompute_level(recipe, letter)));
  return levels;
}

// Between two levels for all letters there are plans that recompute some letters more than others.
TEST(SearchTest, LevelsMayDifferByLetterWhereThatIsFasterThanOneForAll) {
  const recipe::Recipe recipe = test_recipe({"model.depth=4", "train.batch=1", "train.micro_steps=1"});
  const auto needed = [&](const char* level) {
    return compile_candidate(recipe, {{"train.recompute", level}}, test_assumptions("host:1")).needed();
  };
  const Assumptions assumptions = test_assumptions("host:1", (needed("none") + needed("selective")) / 2);
  const LayoutSearch without = search_layouts(recipe, assumptions, {.with_auto = 0});
  const LayoutSearch search = search_layouts(recipe, assumptions);
  ASSERT_TRUE(search.fits());
  EXPECT_TRUE(std::ranges::any_of(search.found, [](const Found& one) { return levels_of(one.recipe).size() > 1; }));
  for (const Found& one : without.found) {
    EXPECT_EQ(levels_of(one.recipe).size(), 1u);
    if (one.fit.fits()) {
      EXPECT_LE(search.found.front().time.seconds(), one.time.seconds());
    }
  }
  for (const Found& one : search.found)
    if (one.fit.fits()) {
      EXPECT_EQ(with_changes(recipe, one.changes), one.recipe) << "its settings lead there, whoever decides on auto";
    }
}

TEST(SearchTest, WhatWasMeasuredToCostNoTimeIsRecomputedInEveryPlan) {
  const recipe::Recipe recipe = test_recipe({"model.depth=4", "model.feed_forward.experts=0", "train.precision=bf16"});
  Assumptions assumptions = test_assumptions("h200:1");
  assumptions.xla_forms.emplace();
  for (const Found& one : search_layouts(recipe, assumptions, {.tries = 4}).found)
    EXPECT_NE(recipe::recompute_level(one.recipe, 'E'), recipe::RecomputeLevel::none) << one.layout;
}

// Of a space that is not compiled whole, layouts without ZeRO come last, unless the recipe has one.
TEST(SearchTest, WithoutZeroIsTriedLastUnlessItIsTheRecipes) {
  const auto without_zero = [](const std::vector<std::string>& settings) {
    const LayoutSearch search =
        search_layouts(test_recipe(settings), test_assumptions("host:4"), {.tries = 8, .with_auto = 0});
    EXPECT_FALSE(search.is_complete());
    return std::ranges::count_if(search.found, [](const Found& one) { return one.recipe.layout.zero == 0; });
  };
  EXPECT_EQ(without_zero({"model.depth=2"}), 0);
  EXPECT_EQ(without_zero({"model.depth=2", "layout.data_parallel=4", "layout.zero=0"}), 3) << "at every level";
}

// With few tries too: FSDP over all chips, and tensor parallelism as wide as a node.
TEST(SearchTest, WhatPeopleTryFirstIsAmongWhatIsCompiled) {
  const recipe::Recipe recipe = test_recipe({"model.feed_forward.experts=0", "train.batch=16"});
  const LayoutSearch search = search_layouts(recipe, test_assumptions("v6e:2x2"), {.tries = 6, .with_auto = 0});
  const auto has = [&search](int64_t data, int64_t tensor, int64_t zero) {
    return std::ranges::any_of(search.found, [&](const Found& one) {
      const recipe::Layout& layout = one.recipe.layout;
      return layout.data_parallel == data && layout.tensor_parallel == tensor && layout.zero == zero;
    });
  };
  EXPECT_TRUE(has(4, 1, 3));
  EXPECT_TRUE(has(1, 4, 1));
}

// Experts on as many chips as can have some, with FSDP around them, and Megatron's three dimensions where pipelines
// run.
TEST(SearchTest, ExpertsWithFsdpAndThreeDimensionsAreAmongWhatIsCompiled) {
  const recipe::Recipe recipe = test_recipe({"model.depth=4", "model.feed_forward.experts=2", "train.batch=16"});
  const auto has = [&recipe](const char* hardware, auto&& is_one) {
    const LayoutSearch search = search_layouts(recipe, test_assumptions(hardware), {.tries = 7, .with_auto = 0});
    EXPECT_FALSE(search.is_complete()) << hardware;
    return std::ranges::any_of(search.found, [&](const Found& one) { return is_one(one.recipe.layout); });
  };
  EXPECT_TRUE(has("v6e:2x4", [](const recipe::Layout& layout) {
    return layout.expert_parallel == 2 && layout.data_parallel == 4 && layout.zero == 3;
  }));
  EXPECT_TRUE(has("host:8", [](const recipe::Layout& layout) {
    return layout.tensor_parallel > 1 && layout.pipeline_parallel > 1;
  }));
}

// One overflowing plan of a layout says nothing against its variants: those with more micro-steps or recompute are
// tried as long as they may fit.
TEST(SearchTest, AnOverflowLeavesTheOtherVariantsOfALayout) {
  const recipe::Recipe recipe =
      test_recipe({"model.depth=4", "model.hidden=128", "model.feed_forward.experts=0",
                   "model.feed_forward.intermediate=512", "train.batch=32", "train.precision=bf16"});
  const std::vector<Found> all = all_of(recipe, test_assumptions("host:2"));
  const int64_t limit = 2 * least_bytes(all);
  std::vector<Found> limited = all;
  for (Found& one : limited)
    for (ChipGroup& group : one.fit.groups) group.limit = {.bytes = limit};
  const LayoutSearch search =
      search_layouts(recipe, test_assumptions("host:2", limit), {.tries = static_cast<int64_t>(all.size()) / 2});
  ASSERT_TRUE(search.fits());
  EXPECT_LE(search.found.front().time.seconds(), 1.2 * fastest_fit(limited));
}

std::vector<FrontPoint> planned_points(const std::vector<Found>& found) {
  std::vector<FrontPoint> points;
  for (const Found& one : found)
    points.push_back({.bytes = one.needed(), .seconds = one.time.seconds(), .verdict = one.fit.verdict()});
  return points;
}

TEST(SearchTest, TheFrontIsWhatNothingBetters) {
  const LayoutSearch search = search_layouts(test_recipe({"model.depth=2"}), test_assumptions("host:4"), {.tries = 24});
  std::vector<FrontPoint> points = planned_points(search.found);
  const std::vector<size_t> front = pareto_front(points);
  ASSERT_FALSE(front.empty());
  for (size_t i = 0; i < points.size(); ++i) {
    bool is_bettered = false;
    for (size_t j = 0; j < points.size(); ++j)
      is_bettered |= points[j].bytes < points[i].bytes && points[j].seconds < points[i].seconds;
    EXPECT_FALSE(is_bettered && std::ranges::find(front, i) != front.end()) << search.found[i].layout;
  }
  EXPECT_NE(std::ranges::find(front, size_t{0}), front.end());

  // What is known of the first one's time counts, not what was predicted.
  points[0].seconds = 2 * std::ranges::max(points, std::less<>(), &FrontPoint::seconds).seconds;
  const std::vector<size_t> slower = pareto_front(points);
  EXPECT_EQ(std::ranges::find(slower, size_t{0}), slower.end());
}

TEST(SearchTest, BesideWhatFitsNothingCloseIsOnTheFront) {
  using enum FitVerdict;
  const std::vector<FrontPoint> points = {{30, 3, fits}, {40, 2, fits}, {50, 1, close}, {10, 1, does_not_fit}};
  EXPECT_EQ(pareto_front(points), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(pareto_front(std::span(points).subspan(2)), (std::vector<size_t>{0})) << "nothing fits";
  EXPECT_EQ(pareto_front(std::span(points).subspan(3)), (std::vector<size_t>{0})) << "nothing is close either";
}

/// Where a compiler may leave large gaps, and nothing is below the plan.
Assumptions with_gaps(const std::string& hardware, int64_t limit = 0) {
  Assumptions assumptions = test_assumptions(hardware, limit);
  assumptions.reserve = testing_support::reserving({.most = 1.65});
  return assumptions;
}

// A limit that the smallest layout meets with all the gaps a compiler may leave, and some others only without.
TEST(SearchTest, WhatIsCloseComesAfterWhatFitsHoweverFastItIs) {
  const recipe::Recipe recipe = test_recipe({"model.depth=1", "model.pattern=A", "train.batch=4"});
  int64_t limit = INT64_MAX;
  for (const Found& one : all_of(recipe, with_gaps("v6e:2x2")))
    limit = std::min(limit, one.fit.worst().reservation.most);
  const LayoutSearch search = search_layouts(recipe, with_gaps("v6e:2x2", limit), {.with_auto = 0});
  ASSERT_TRUE(search.fits());
  double fastest_close = INFINITY;
  for (size_t i = 0; i < search.found.size(); ++i) {
    const FitVerdict verdict = search.found[i].fit.verdict();
    EXPECT_GE(verdict, search.found[i == 0 ? 0 : i - 1].fit.verdict()) << search.found[i].layout;
    if (verdict == FitVerdict::close) fastest_close = std::min(fastest_close, search.found[i].time.seconds());
  }
  EXPECT_LT(fastest_close, search.found.front().time.seconds()) << "else nothing is shown";
}

/// A dense model whose activations outweigh its state by far.
recipe::Recipe wide_recipe(std::vector<std::string> settings) {
  settings.insert(settings.begin(),
                  {"model.pattern=E", "model.depth=4", "model.hidden=512", "model.feed_forward.experts=0",
                   "model.feed_forward.intermediate=2048", "train.precision=bf16"});
  return test_recipe(settings);
}

// Of a space that is not compiled whole too: a layout that is close is tried again where it should fit with all gaps.
// A sequence a chip, so that only more recompute helps: selective is close as well, which would be the last try.
TEST(SearchTest, ALayoutThatIsCloseIsTriedAgainUntilItFits) {
  const recipe::Recipe recipe = wide_recipe({"train.sequence=4096", "train.batch=4"});
  const Found keeping = compile_candidate(
      recipe, {{"layout.data_parallel", "4"}, {"layout.zero", "3"}, {"train.recompute", "none"}}, with_gaps("v6e:2x2"));
  const LayoutSearch search =
      search_layouts(recipe, with_gaps("v6e:2x2", keeping.needed()), {.tries = 5, .with_auto = 0});
  ASSERT_TRUE(search.fits());
  const Found& first = search.found.front();
  EXPECT_EQ(first.layout, keeping.layout);
  EXPECT_EQ(levels_of(first.recipe), (std::set<std::string>{"full"}));
}

// The same where less than the plan may be enough, and more is expected.
TEST(SearchTest, TheRangeOfWhatIsNeededDecidesWhatIsTriedAgain) {
  const recipe::Recipe recipe = wide_recipe({"train.sequence=4096", "train.batch=4"});
  const auto with_range = [](int64_t limit = 0) {
    Assumptions assumptions = test_assumptions("v6e:2x2", limit);
    assumptions.reserve = testing_support::reserving({.least = 0.9, .expected = 1.1, .most = 1.3, .code = 1'000'000});
    return assumptions;
  };
  const Found keeping = compile_candidate(
      recipe, {{"layout.data_parallel", "4"}, {"layout.zero", "3"}, {"train.recompute", "none"}}, with_range());
  const int64_t limit = keeping.fit.worst().reservation.most - 1;
  const LayoutSearch search = search_layouts(recipe, with_range(limit), {.with_auto = 0});
  ASSERT_TRUE(search.fits());
  EXPECT_LE(search.found.front().fit.worst().reservation.most, limit);
  const auto same = std::ranges::find_if(search.found, [&](const Found& one) {
    return one.layout == keeping.layout && levels_of(one.recipe) == levels_of(keeping.recipe);
  });
  ASSERT_NE(same, search.found.end());
  EXPECT_EQ(same->fit.verdict(), FitVerdict::close);
}

// What a compiler may use up as it comes speaks against no layout: only the state that a step begins with does.
TEST(SearchTest, WhereACompilerPlacesBuffersGradientsAloneDiscardNothing) {
  const recipe::Recipe recipe = test_recipe({"train.batch=1", "train.micro_steps=1"});
  const Found own = compile_candidate(recipe, {}, test_assumptions("h100:1"));
  const int64_t state = own.fit.worst().reservation.state;  // weights, gradients and two moments
  const auto discarded = [&](const Reserve& reserve) {
    Assumptions assumptions = test_assumptions("h100:1", state * 9 / 10);
    assumptions.reserve = reserve;
    int64_t layouts = 0;
    for (const Dropped& one : search_layouts(recipe, assumptions).dropped)
      if (one.reason.find("state alone") != std::string::npos) layouts += one.layouts;
    return layouts;
  };
  EXPECT_GT(discarded({}), 0) << "a tenth too much with gradients";
  EXPECT_EQ(discarded(testing_support::reserving({.least = 0.5})), 0);
}

// Close is not fit: beside it the smallest is tried before layouts that should not fit at all.
TEST(SearchTest, OfALayoutThatIsOnlyCloseTheSmallestIsTried) {
  const recipe::Recipe recipe = wide_recipe({"train.sequence=1024", "train.batch=2"});
  const auto needed = [&](const char* batch, const char* micro_steps) {
    const plan::Changes changes = {
        {"train.batch", batch}, {"train.micro_steps", micro_steps}, {"train.recompute", "full"}};
    return compile_candidate(recipe, changes, with_gaps("v6e:1x1")).needed();
  };
  constexpr int64_t kRoom = 10'000'000;
  const Assumptions assumptions = with_gaps("v6e:1x1", needed("2", "1") + kRoom);
  const LayoutSearch search = search_layouts(recipe, assumptions, {.tries = 5, .with_auto = 0});
  EXPECT_EQ(search.verdict(), FitVerdict::close);
  EXPECT_EQ(search.left, 1);
  EXPECT_EQ(least_bytes(search.found), needed("1", "2"));
}

TEST(SearchTest, ThreadsChangeNothing) {
  const Assumptions assumptions = test_assumptions("v6e:2x2");
  const LayoutSearch one = search_layouts(test_recipe(), assumptions, {.tries = 12, .threads = 1});
  const LayoutSearch three = search_layouts(test_recipe(), assumptions, {.tries = 12, .threads = 3});
  ASSERT_EQ(one.found.size(), three.found.size());
  for (size_t i = 0; i < one.found.size(); ++i) EXPECT_EQ(one.found[i].changes, three.found[i].changes);
}

TEST(SearchTest, WhatNothingMeetsShowsTheLeastAndItsRoles) {
  const LayoutSearch search = search_layouts(test_recipe(), test_assumptions("host:4", 4096));
  EXPECT_FALSE(search.fits());
  ASSERT_FALSE(search.found.empty());
  for (const Found& one : search.found) EXPECT_GE(one.needed(), search.found.front().needed());
  EXPECT_FALSE(search.found.front().roles.empty());
  int64_t too_large = 0;
  for (const Dropped& one : search.dropped)
    if (one.reason.find("state alone") != std::string::npos) too_large = one.layouts;
  EXPECT_EQ(too_large, search.variants);
}

TEST(SearchTest, NoLegalLayoutLeavesReasons) {
  const LayoutSearch search =
      search_layouts(test_recipe({"model.depth=1", "train.batch=1"}), test_assumptions("host:13"));
  EXPECT_TRUE(search.found.empty());
  EXPECT_FALSE(search.dropped.empty());
}

/// How many layouts with these settings were refused.
int64_t count_refused(const LayoutSearch& search, const std::vector<std::string>& settings) {
  int64_t count = 0;
  for (const Refused& refused : search.refused) {
    EXPECT_TRUE(refused.reason.starts_with("refused while compiling: E")) << refused.reason;
    for (const Refused::Layout& one : refused.layouts) {
      const std::vector<std::string> own = plan::overrides_of(one.settings);
      const auto has = [&own](const std::string& setting) { return std::ranges::find(own, setting) != own.end(); };
      count += std::ranges::all_of(settings, has) ? 1 : 0;
      EXPECT_FALSE(one.got.empty());
    }
  }
  return count;
}

// What no gate foresees, here values that chips would hold whole: the others are still found. Whether it is the
// recipe's own layout makes no difference.
TEST(SearchTest, WhatIsRefusedWhileCompilingIsNamed) {
  const std::vector<std::string> layout = {"layout.data_parallel=1",     "layout.expert_parallel=1",
                                           "layout.context_parallel=2",  "layout.tensor_parallel=1",
                                           "layout.pipeline_parallel=2", "layout.zero=0"};
  std::vector<std::string> settings = {"train.batch=1",
                                       "train.micro_steps=1",
                                       "train.sequence=1024",
                                       "model.depth=2",
                                       "model.feed_forward.experts=2",
                                       "model.feed_forward.top_k=1",
                                       "model.feed_forward.capacity_factor=1",
                                       "layout.max_replicated_bytes=0"};
  const LayoutSearch search = search_layouts(test_recipe(settings), test_assumptions("v6e:2x2"), {.with_auto = 0});
  settings.insert(settings.end(), layout.begin(), layout.end());
  const LayoutSearch own = search_layouts(test_recipe(settings), test_assumptions("v6e:2x2"), {.with_auto = 0});
  for (const LayoutSearch* one : {&search, &own}) {
    EXPECT_FALSE(one->found.empty());
    EXPECT_EQ(count_refused(*one, layout), 3) << "levels of recompute";
    for (const char* level : {"none", "selective", "full"}) {
      std::vector<std::string> variant = layout;
      variant.push_back(std::string("train.recompute.A=") + level);
      EXPECT_EQ(count_refused(*one, variant), 1) << level;
    }
  }
  EXPECT_EQ(count_refused(search, {}), count_refused(own, {}));
}

TEST(SearchTest, WhatIsRefusedWithRecomputeLeftToPlanningIsNamedToo) {
  const recipe::Recipe recipe =
      test_recipe({"model.depth=1", "model.pattern=A", "train.batch=4", "train.recompute=full"});
  Assumptions assumptions = test_assumptions("host:2");
  assumptions.cannot_run = [](const recipe::Recipe& one) -> std::optional<recipe::Unsupported> {
    if (recipe::recompute_level(one, 'A') != recipe::RecomputeLevel::automatic) return std::nullopt;
    return recipe::Unsupported{.setting = "train.recompute.A: auto", .reason = "a test", .instead = "another level"};
  };
  const LayoutSearch search = search_layouts(recipe, assumptions, {.with_auto = 2});
  EXPECT_FALSE(search.found.empty());
  ASSERT_EQ(search.refused.size(), 1u) << "of one reason";
  EXPECT_TRUE(search.refused[0].reason.ends_with(": train.recompute.A: auto")) << search.refused[0].reason;
  EXPECT_EQ(count_refused(search, {"train.recompute.A=auto"}), 2);
}

// Good enough to choose by, for all layouts of a small mesh. Furthest off are tensor splits, which leave some
// activations whole.
TEST(SearchTest, EstimatesAreNearWhatIsCompiled) {
  constexpr double kFactor = 2.5;
  const recipe::Recipe recipe = test_recipe({"train.sequence=256", "model.hidden=256"});
  const LayoutSearch search = search_layouts(recipe, test_assumptions("host:4"), {.tries = 24});
  for (const Found& one : search.found) {
    EXPECT_LT(one.quick_estimate.bytes, kFactor * static_cast<double>(one.needed())) << one.layout;
    EXPECT_GT(one.quick_estimate.bytes, static_cast<double>(one.needed()) / kFactor) << one.layout;
    EXPECT_LT(one.quick_estimate.seconds, kFactor * one.time.seconds()) << one.layout;
    EXPECT_GT(one.quick_estimate.seconds, one.time.seconds() / kFactor) << one.layout;
  }
}

}  // namespace
}  // namespace megacpp::fit
