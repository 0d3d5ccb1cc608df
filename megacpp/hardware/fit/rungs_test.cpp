// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/rungs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/program/recipe/parse.h"

namespace megacpp::fit {
namespace {

TEST(RungsTest, ARungChangesItsOwnKeysAlone) {
  const recipe::Recipe recipe = recipe::load(
      std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml",
      std::vector<std::string>{"layout.data_parallel=4", "layout.zero=0", "layout.reshard_after_forward=false",
                               "train.recompute.E=none"});  // as planned: rungs start from what auto became
  for (const Rung& rung : all_rungs()) {
    EXPECT_FALSE(rung.changes(recipe).empty()) << rung.name;
    for (const plan::Changes& offer : rung.changes(recipe))
      for (const plan::Change& change : offer) EXPECT_TRUE(rung.may_change(change.key)) << rung.name << change.key;
  }
}

TEST(RungsTest, WhatTheLayoutIgnoresIsNotOffered) {
  const recipe::Recipe one_chip = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml");
  for (const char* name : {"zero", "features"}) {
    const auto rung = std::ranges::find(all_rungs(), name, &Rung::name);
    EXPECT_TRUE(rung->changes(one_chip).empty()) << name;
  }
}

TEST(RungsTest, StateGoesToTheHostBeforeActivations) {
  const auto rung = std::ranges::find(all_rungs(), "offload", &Rung::name);
  const auto offered = [&](const std::string& offload) {
    std::string values;
    for (const plan::Changes& offer :
         rung->changes(recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                                    std::vector<std::string>{"layout.offload=" + offload})))
      values += offer[0].value + " ";
    return values;
  };
  EXPECT_EQ(offered("none"), "optimizer activations ");
  EXPECT_EQ(offered("optimizer"), "all ");
  EXPECT_EQ(offered("activations"), "all ");
  EXPECT_EQ(offered("all"), "");
}

TEST(RungsTest, LettersThatRecomputeAtLittleCostComeFirst) {
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/jamba-tiny.yaml",
                   std::vector<std::string>{"train.recompute=none", "train.recompute.M=selective"});
  const auto rung = std::ranges::find(all_rungs(), "recompute", &Rung::name);
  std::string offered;
  for (const plan::Changes& offer : rung->changes(recipe))
    offered += offer[0].key.back() + ("=" + offer[0].value) + " ";
  EXPECT_EQ(offered, "D=selective A=selective E=selective M=full ") << "dense blocks, then as the families stand";
}

TEST(RungsTest, ThePolicySaysWhatMayBeChanged) {
  const plan::Changes batch = {{"train.batch", "4"}, {"train.micro_steps", "2"}}, sequence = {{"train.sequence", "64"}};
  const auto with_rungs = [](const std::string& rungs) {
    return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                        std::vector<std::string>{"ladder.rungs=" + rungs, "train.recompute.A=none"});
  };
  EXPECT_TRUE(offers(with_rungs("[zero, batch]"), batch));
  EXPECT_FALSE(offers(with_rungs("[zero, batch]"), sequence));
  EXPECT_FALSE(offers(with_rungs("[]"), batch));
  EXPECT_TRUE(offers(with_rungs("[]"), {}));
  EXPECT_FALSE(offers(with_rungs("[]"), {{"train.recompute.E", "full"}})) << "no rungs, no answer to a failure";
  EXPECT_TRUE(offers(with_rungs("[batch]"), {{"train.recompute.E", "full"}})) << "it is left to planning";
  EXPECT_FALSE(offers(with_rungs("[batch]"), {{"train.recompute.A", "full"}})) << "the recipe gives it";
  EXPECT_TRUE(changes_experiment(sequence));
  EXPECT_FALSE(changes_experiment(batch));
}

TEST(RungsTest, LoopsAreOfferedWhereTheyAreLeftToPlanning) {
  const plan::Changes unrolled = {{"xla.loops", "off"}};
  const auto offered = [&](const std::string& rungs, const std::string& loops) {
    return offers(recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                               std::vector<std::string>{"ladder.rungs=" + rungs, "xla.loops=" + loops}),
                  unrolled);
  };
  EXPECT_TRUE(offered("[batch]", "auto"));
  EXPECT_FALSE(offered("[batch]", "on")) << "the recipe gives it";
  EXPECT_FALSE(offered("[batch]", "off")) << "nothing was left to decide";
  EXPECT_FALSE(offered("[]", "auto")) << "no rungs, no answer to a failure";
  EXPECT_FALSE(changes_experiment(unrolled));
}

}  // namespace
}  // namespace megacpp::fit
