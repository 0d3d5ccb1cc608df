// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/global_batch.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"

namespace megacpp::recipe {
namespace {

Recipe with_batch(const std::string& train, const std::vector<std::string>& overrides = {}) {
  return parse(
      "model: {pattern: E, depth: 1, hidden: 8, vocab: 256, feed_forward: {intermediate: 8}}\n"
      "train: {sequence: 4, steps: 1, " +
          train + "}\n",
      "test.yaml", overrides);
}

void expect_refused(base::Code code, const std::string& next, const std::string& train,
                    const std::vector<std::string>& overrides = {}) {
  try {
    with_batch(train, overrides);
    FAIL() << train;
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << train;
    EXPECT_NE(error.problem().next.find(next), std::string::npos) << error.problem().next;
  }
}

TEST(GlobalBatchTest, MicroStepsFollow) {
  const Recipe recipe = with_batch("batch: 4, global_batch: 24");
  EXPECT_EQ(recipe.train.micro_steps, 6);
  EXPECT_EQ(recipe.train.global_batch, 0);
  EXPECT_EQ(recipe, parse(print(recipe), "printed.yaml"));
  EXPECT_EQ(with_batch("batch: 4").train.micro_steps, 1);
  EXPECT_EQ(with_batch("batch: 4, micro_steps: 6, global_batch: 24"), recipe) << "both may say the same";
}

TEST(GlobalBatchTest, WhatIsSetLaterCounts) {
  EXPECT_EQ(with_batch("batch: 4, global_batch: 24", {"train.batch=2"}).train.micro_steps, 12);
  EXPECT_EQ(with_batch("batch: 4, micro_steps: 3", {"train.global_batch=32"}).train.micro_steps, 8);
  EXPECT_EQ(with_batch("batch: 4, global_batch: 24", {"train.micro_steps=2"}).train.micro_steps, 2);
  Recipe recipe = with_batch("batch: 4");
  apply_overrides(recipe, std::vector<std::string>{"train.global_batch=8"});
  EXPECT_EQ(recipe.train.micro_steps, 2);
}

TEST(GlobalBatchTest, WhatDoesNotDivideIsRefusedWithTheNearestThatDo) {
  expect_refused(base::Code::E1005, "set train.global_batch: 24 or 28", "batch: 4, global_batch: 26");
  expect_refused(base::Code::E1005, "set train.global_batch: 4", "batch: 4, global_batch: 3");
  expect_refused(base::Code::E1005, "set train.global_batch: 24 or 27", "batch: 4, global_batch: 26",
                 {"train.batch=3"});
}

TEST(GlobalBatchTest, OtherMicroStepsInTheSamePlaceAreRefused) {
  expect_refused(base::Code::E1003, "remove train.micro_steps", "batch: 4, micro_steps: 5, global_batch: 24");
  expect_refused(base::Code::E1003, "remove train.micro_steps", "batch: 4",
                 {"train.micro_steps=5", "train.global_batch=24"});
}

TEST(GlobalBatchTest, ValuesOutOfRangeAreRefused) {
  expect_refused(base::Code::E1003, "", "batch: 4, global_batch: -4");
  expect_refused(base::Code::E1003, "", "batch: 0, global_batch: 4");
  expect_refused(base::Code::E1003, "", "global_batch: 4");
  expect_refused(base::Code::E1003, "", "batch: 1, global_batch: 16777216");
}

}  // namespace
}  // namespace megacpp::recipe
