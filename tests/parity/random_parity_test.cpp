// SPDX-License-Identifier: Apache-2.0
// Random small models in random layouts train as on one chip. A seed fixes everything; a failure prints the line
// that repeats it, and the command that trains the same model in the same layout.
// More seeds: MEGACPP_RANDOM_SEEDS=1000 build/dev/bin/parity_test --gtest_filter='*RandomParity*'
//
// A layout that a gate refuses is drawn again, and so is a model that stands on an edge; see Comparison.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <optional>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/philox.h"
#include "megacpp/program/plan/plan.h"
#include "tests/parity/random_recipe.h"
#include "tests/parity/training_comparison.h"

namespace megacpp::testing_support {
namespace {

constexpr int64_t kDefaultSeeds = 40;
constexpr int64_t kMaxLayouts = 300;  // drawn for one model until one is legal
constexpr int64_t kMaxModels = 3;     // drawn for one seed until one is away from every edge

/// Whether the gates between recipe and plan let it pass. Whatever a later stage refuses is a bug.
bool is_legal(const recipe::Recipe& recipe) {
  try {
    plan::make_plan(recipe);
    return true;
  } catch (const base::Error& error) {
    if (error.code() >= base::Code::E1401 && error.code() <= base::Code::E1407) return false;
    throw;
  }
}

struct Drawn {
  recipe::Recipe recipe;
  std::string command;
  int64_t refused = 0;  // layouts, before this one
};

std::optional<Drawn> draw_case(int64_t seed, int64_t attempt) {
  const base::Philox random(static_cast<uint64_t>(seed), "random parity " + std::to_string(attempt));
  Draw draw([&random, next = uint64_t{0}]() mutable { return random.word(next++); });
  Overrides model;
  const bool has_experts = draw_model(draw, model);
  draw_training(draw, model);
  for (int64_t refused = 0; refused < kMaxLayouts; ++refused) {
    Overrides all = model;
    draw_layout(draw, has_experts, all);
    recipe::Recipe recipe = all.recipe();
    if (is_legal(recipe)) return Drawn{std::move(recipe), all.command(), refused};
  }
  return std::nullopt;
}

int64_t seeds() {
  const char* wish = std::getenv("MEGACPP_RANDOM_SEEDS");
  return wish == nullptr ? kDefaultSeeds : std::strtoll(wish, nullptr, 10);
}

class RandomParityTest : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomParityTest, testing::Range<int64_t>(0, seeds()),
                         [](const auto& info) { return fmt::format("seed{}", info.param); });

TEST_P(RandomParityTest, TrainsAsOnOneChip) {
  const std::string repeat =
      fmt::format("MEGACPP_RANDOM_SEEDS={} build/dev/bin/parity_test --gtest_filter='*RandomParity*/seed{}'",
                  GetParam() + 1, GetParam());
  for (int64_t attempt = 0; attempt < kMaxModels; ++attempt) {
    std::optional<Drawn> drawn;
    try {
      drawn = draw_case(GetParam(), attempt);
      ASSERT_TRUE(drawn) << "none of " << kMaxLayouts << " layouts is legal\n" << repeat;
      RecordProperty("refused_layouts", std::to_string(drawn->refused));
      const Comparison comparison = compare_with_one_chip(drawn->recipe);
      if (!comparison.on_edge) {
        EXPECT_EQ(comparison.problems, "") << repeat << "\n" << drawn->command;
        return;
      }
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\n" << repeat << (drawn ? "\n" + drawn->command : "");
    }
    std::cout << "on an edge, drawn again: " << drawn->command << "\n";
  }
  FAIL() << "each of " << kMaxModels << " models stands on an edge";
}

}  // namespace
}  // namespace megacpp::testing_support
