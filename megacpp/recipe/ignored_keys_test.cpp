// SPDX-License-Identifier: Apache-2.0
#include "megacpp/recipe/ignored_keys.h"

#include <gtest/gtest.h>

namespace megacpp::recipe {
namespace {

using Found = std::vector<KeyWithoutEffect>;

const std::vector<IgnoredKey>& table() {
  static const std::vector<IgnoredKey> lines = {
      {.key = "xla.", .decides = "no XLA"},
      {.key = "layout.load_balance",
       .decides = "no context",
       .applies = [](const Recipe& recipe) { return recipe.layout.context_parallel == 1; }},
      {.key = "layout.load_balance", .decides = "never"},
      {.key = "hardware.target", .decides = "here", .plans_read_it = true}};
  return lines;
}

TEST(IgnoredKeysTest, KeysAtTheirDefaultsAreNotSpokenOf) {
  EXPECT_EQ(ignored_keys(table(), Recipe{}, Use::run), Found{});
  Recipe recipe;
  recipe.layout.prefetch = 7;
  EXPECT_EQ(ignored_keys(table(), recipe, Use::run), Found{}) << "the table does not have it";
}

TEST(IgnoredKeysTest, ASectionStandsForEachOfItsKeys) {
  Recipe recipe;
  recipe.xla.plugin = "cuda";
  recipe.xla.cache = "off";
  EXPECT_EQ(ignored_keys(table(), recipe, Use::run), (Found{{"xla.plugin", "no XLA"}, {"xla.cache", "no XLA"}}));
}

TEST(IgnoredKeysTest, TheFirstLineThatAppliesGivesTheReason) {
  Recipe recipe;
  recipe.layout.load_balance = false;
  EXPECT_EQ(ignored_keys(table(), recipe, Use::run), (Found{{"layout.load_balance", "no context"}}));
  recipe.layout.context_parallel = 2;
  EXPECT_EQ(ignored_keys(table(), recipe, Use::run), (Found{{"layout.load_balance", "never"}}));
}

TEST(IgnoredKeysTest, WhatPlansReadIsIgnoredByRunsOnly) {
  Recipe recipe;
  recipe.hardware.target = "v6e:2x2";
  EXPECT_EQ(ignored_keys(table(), recipe, Use::run), (Found{{"hardware.target", "here"}}));
  EXPECT_EQ(ignored_keys(table(), recipe, Use::plan), Found{});
}

}  // namespace
}  // namespace megacpp::recipe
