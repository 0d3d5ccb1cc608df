// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/recipe/ignored_keys.h"

#include <gtest/gtest.h>

#include "megacpp/program/recipe/parse.h"

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
  recipe.xla.cache = {.in = ProgramCacheFolder::In::nowhere};
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

TEST(IgnoredKeysTest, OfACommandThatReadsAPartOnlyWhatIsSetIsSpokenOf) {
  constexpr const char* kText =
      "model: {pattern: E, depth: 1, hidden: 8, vocab: 16, feed_forward: {intermediate: 8}}\n"
      "train: {batch: 1, sequence: 8, steps: 1}\n"
      "xla: {cache: off, plugin: cuda}\n";
  const std::vector<IgnoredKey> lines = {{.key = "xla.", .decides = "no XLA"},
                                         {.key = "train.recompute", .decides = "no training"},
                                         {.key = "train.global_batch", .decides = "no training"},
                                         {.key = "train.threads",
                                          .decides = "never",
                                          .applies = [](const Recipe& recipe) { return recipe.train.batch > 1; }}};
  EXPECT_EQ(ignored_overrides(lines, parse(kText, "r.yaml")), Found{});
  const std::vector<std::string> settings = {"xla.cache=auto", "train.recompute=full", "train.global_batch=4",
                                             "train.threads=2", "train.steps=3"};
  EXPECT_EQ(ignored_overrides(lines, parse(kText, "r.yaml", settings)),
            (Found{{"train.global_batch", "no training", "--set"},
                   {"train.recompute", "no training", "--set"},
                   {"xla.cache", "no XLA", "--set"}}))
      << "at their defaults or not";
}

}  // namespace
}  // namespace megacpp::recipe
