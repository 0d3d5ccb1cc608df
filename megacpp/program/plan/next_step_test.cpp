// SPDX-License-Identifier: Apache-2.0
// What a refused layout is told to become is legal: every offer is applied and planned.
#include "megacpp/program/plan/next_step.h"

#include <gtest/gtest.h>

#include <random>

#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/validate.h"
#include "tests/support/errors.h"

namespace megacpp::plan {
namespace {

using recipe::Recipe;

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (size_t end; (end = text.find(separator, at)) != std::string::npos; at = end + separator.size())
    parts.push_back(text.substr(at, end - at));
  parts.push_back(text.substr(at));
  return parts;
}

// "set a: 1 and b: 2, or c: 3 or 4" as {a=1, b=2}, {c=3}, {c=4}; empty for other words.
std::vector<std::vector<std::string>> offers_of(const std::string& next) {
  std::vector<std::vector<std::string>> offers;
  if (!next.starts_with("set ")) return offers;
  for (const std::string& offer : split(next.substr(4), ", or ")) {
    const std::vector<std::string> values = split(offer, " or ");
    std::vector<std::string> changes;
    for (const std::string& change : split(values[0], " and ")) {
      const size_t colon = change.find(": ");
      changes.push_back(change.substr(0, colon) + "=" + change.substr(colon + 2));
    }
    offers.push_back(changes);
    for (size_t i = 1; i < values.size(); ++i) {
      std::string& last = changes.back();
      last = last.substr(0, last.find('=') + 1) + values[i];
      offers.push_back(changes);
    }
  }
  return offers;
}

Recipe tiny(const std::string& name, const std::vector<std::string>& overrides) {
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/" + name + ".yaml", overrides);
}

std::string next_of(const Recipe& recipe, Adjustable adjustable = Adjustable::recipe) {
  return testing_support::error_of([&] { make_plan(recipe, adjustable); }).problem().next;
}

// Legal as the next command would find it.
void expect_legal(const Recipe& refused, const std::vector<std::string>& changes, const std::string& next) {
  Recipe changed = refused;
  EXPECT_NO_THROW({
    recipe::apply_overrides(changed, changes);
    recipe::validate(changed);
    make_plan(changed);
  }) << next;
}

TEST(NextStepTest, WaysThatOtherGatesRefuseAreNotOffered) {
  struct Case {
    const char* recipe;
    std::vector<std::string> overrides;
    const char* next;
  };
  const std::vector<Case> cases = {
      {"nam56r-tiny",
       {"layout.virtual_stages=7", "layout.pipeline_parallel=2", "layout.schedule=interleaved"},
       "set layout.virtual_stages: 6"},
      {"nam56r-tiny",
       {"layout.virtual_stages=13", "layout.pipeline_parallel=2", "layout.schedule=interleaved"},
       "set layout.virtual_stages: 6"},
      {"nam56r-tiny",
       {"model.depth=3", "layout.virtual_stages=2", "layout.pipeline_parallel=2", "layout.schedule=interleaved"},
       "set layout.virtual_stages: 1 and layout.schedule: 1f1b"},
      {"nam56r-tiny", {"layout.chips=64"}, "set layout.data_parallel: 8 and layout.chips: 8, or layout.chips: 1"},
      {"nam56r-tiny", {"layout.chips=1000000"}, "set layout.data_parallel: 8 and layout.chips: 8, or layout.chips: 1"},
      {"nam52-tiny", {"layout.expert_parallel=64"}, "set layout.expert_parallel: 1 and layout.data_parallel: 8"},
      {"nam56r-tiny",
       {"layout.tensor_parallel=65536", "layout.context_parallel=65536"},
       "set layout.context_parallel: 32 and layout.tensor_parallel: 4"},
      {"nam56r-tiny",
       {"layout.context_parallel=3", "layout.context_attention=alltoall"},
       "set layout.context_parallel: 2"},
      {"nam56r-tiny",
       {"layout.tensor_parallel=3", "layout.pipeline_parallel=13"},
       "set layout.tensor_parallel: 2 and layout.pipeline_parallel: 12"},
  };
  for (const Case& each : cases) {
    const Recipe recipe = tiny(each.recipe, each.overrides);
    const std::string next = next_of(recipe);
    EXPECT_EQ(next, each.next);
    for (const auto& changes : offers_of(next)) expect_legal(recipe, changes, next);
  }
}

TEST(NextStepTest, EveryDegreeComesDownWhereAllAreTooLarge) {
  const Recipe recipe = tiny(
      "nam56r-tiny", {"layout.data_parallel=65536", "layout.expert_parallel=65536", "layout.context_parallel=65536",
                      "layout.tensor_parallel=65536", "layout.pipeline_parallel=65536"});
  const base::Error error = testing_support::error_of([&recipe] { make_plan(recipe); });
  EXPECT_EQ(error.code(), base::Code::E1401);
  ASSERT_EQ(offers_of(error.problem().next).size(), 1u) << error.what();
  expect_legal(recipe, offers_of(error.problem().next)[0], error.what());
}

TEST(NextStepTest, AGivenNumberOfChipsFollowsTheDegrees) {
  const Recipe recipe = tiny("nam56r-tiny", {"layout.tensor_parallel=3", "layout.chips=3"});
  EXPECT_EQ(next_of(recipe),
            "set layout.tensor_parallel: 2 and layout.chips: 2, or layout.tensor_parallel: 4 and layout.chips: 4");
}

TEST(NextStepTest, OnlyKeysOfTheLayoutAreNamedWhereTheRestIsGiven) {
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{{"layout.context_parallel=5"},
                                             {"layout.data_parallel=16"},
                                             {"layout.tensor_parallel=4", "train.sequence=6"}}) {
    const Recipe recipe = tiny("nam56r-tiny", overrides);
    const std::string next = next_of(recipe, Adjustable::layout);
    EXPECT_EQ(next.find("train."), std::string::npos) << next;
    ASSERT_FALSE(offers_of(next).empty()) << next;
    for (const auto& changes : offers_of(next)) expect_legal(recipe, changes, next);
  }
}

// Values as users mistype them: near misses, too large ones, ones for another model.
std::vector<std::string> random_overrides(std::mt19937& random) {
  const auto any_of = [&random](std::vector<std::string> values) { return values[random() % values.size()]; };
  const std::vector<std::string> degrees = {"1", "2", "2", "3", "4", "4", "5", "6", "7", "8", "16", "64", "65536"};
  std::vector<std::string> overrides;
  const auto maybe = [&](const char* key, const std::vector<std::string>& values) {
    if (random() % 2 == 0) overrides.push_back(std::string(key) + "=" + any_of(values));
  };
  for (const char* key : {"layout.data_parallel", "layout.expert_parallel", "layout.context_parallel",
                          "layout.tensor_parallel", "layout.pipeline_parallel", "layout.virtual_stages"})
    maybe(key, degrees);
  maybe("layout.chips", {"0", "1", "4", "7", "8", "64", "1000000"});
  maybe("layout.expert_tensor_parallel", {"0", "1", "2", "3", "4"});
  maybe("layout.schedule", {"1f1b", "gpipe", "interleaved", "interleaved", "zero_bubble"});
  maybe("layout.context_attention", {"ring", "alltoall"});
  maybe("layout.sequence_parallel", {"true", "false"});
  maybe("layout.load_balance", {"true", "false"});
  maybe("layout.policy", {"spmd", "fsdp", "megatron"});
  maybe("layout.zero", {"-1", "0", "1", "2", "3", "3"});
  maybe("layout.reshard_after_forward", {"true", "false", "2", "3", "4", "64"});
  maybe("train.batch", {"1", "2", "3", "8", "12"});
  maybe("train.sequence", {"1", "7", "60", "64", "240", "256"});
  maybe("model.depth", {"1", "2", "3", "5", "12"});
  maybe("model.pattern", {"A", "AE", "AE|", "AE|M", "M", "RE"});
  return overrides;
}

TEST(NextStepTest, EveryOfferForARandomLayoutIsLegal) {
  std::mt19937 random(20261115);
  int64_t refused = 0;
  for (const char* name : {"nam56r-tiny", "nam52-tiny"})
    for (int64_t i = 0; i < 400; ++i) {
      std::vector<std::string> overrides = random_overrides(random);
      if (std::string(name) == "nam52-tiny")
        std::erase_if(overrides, [](const std::string& o) {
          return o.find("M") != std::string::npos || o.find("=RE") != std::string::npos;
        });
      const Recipe recipe = tiny(name, overrides);
      const Adjustable adjustable = i % 3 == 0 ? Adjustable::layout : Adjustable::recipe;
      try {
        make_plan(recipe, adjustable);
        continue;
      } catch (const base::Error& error) {
        ++refused;
        const std::string& next = error.problem().next;
        std::string given = std::string(name) + ":";
        for (const std::string& override : overrides) given += " " + override;
        EXPECT_FALSE(offers_of(next).empty()) << given << "\n" << error.what();
        for (const auto& changes : offers_of(next)) expect_legal(recipe, changes, given + "\n" + error.what());
        EXPECT_EQ(error.problem().wanted.find("a divisor of 1 between"), std::string::npos) << given;
      }
    }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace megacpp::plan
