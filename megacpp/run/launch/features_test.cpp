// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/features.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/errors.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::launch {
namespace {

std::vector<Feature> features_with(const std::string& backend, const std::vector<std::string>& settings) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.backend = backend;
  recipe::apply_overrides(recipe, settings);
  return features_of(plan::PlannedRecipe(recipe), runtime::backend_named(backend));
}

Feature feature_of(const std::vector<Feature>& features, const std::string& key) {
  const auto at = std::ranges::find(features, key, &Feature::key);
  EXPECT_NE(at, features.end()) << key;
  return at == features.end() ? Feature{} : *at;
}

TEST(FeaturesTest, WhatABackendIgnoresOrCannotRunIsOffThereByItsOwnWords) {
  const std::vector<Feature> xla = features_with("xla", {"layout.data_parallel=2"});
  const Feature stages = feature_of(xla, "layout.pipeline_parallel"), prefetch = feature_of(xla, "layout.prefetch");
  EXPECT_EQ(stages.state, FeatureState::off);
  EXPECT_EQ(stages.why, "not 2: backend xla: one program on all devices, no pipeline stages");
  EXPECT_EQ(prefetch.state, FeatureState::off);
  EXPECT_EQ(prefetch.why, "XLA schedules its collectives");
  EXPECT_EQ(feature_of(xla, "train --trace").state, FeatureState::off);
  const std::vector<Feature> cpu = features_with("cpu", {"layout.data_parallel=2"});
  EXPECT_EQ(feature_of(cpu, "layout.pipeline_parallel").why, "not asked for");
  EXPECT_EQ(feature_of(cpu, "layout.data_parallel").state, FeatureState::on);
  EXPECT_EQ(feature_of(cpu, "train --trace").state, FeatureState::on);
  EXPECT_EQ(feature_of(cpu, "xla.").why, "only backend xla reads it");
  EXPECT_EQ(feature_of(cpu, "train.threads").state, FeatureState::on) << "0 is all cores";
}

TEST(FeaturesTest, OffloadIsOnWhereTheRecipeAsksForItAndTheBackendHasAHost) {
  const Feature off = feature_of(features_with("cuda", {}), "layout.offload");
  EXPECT_EQ(off.state, FeatureState::off);
  EXPECT_EQ(off.why, "not asked for");
  EXPECT_EQ(feature_of(features_with("cuda", {"layout.offload=optimizer"}), "layout.offload").state, FeatureState::on);
  for (const char* backend : {"cpu", "xla"}) {
    const Feature refused = feature_of(features_with(backend, {}), "layout.offload");
    EXPECT_EQ(refused.state, FeatureState::off) << backend;
    EXPECT_TRUE(refused.why.starts_with(std::string("not optimizer: backend ") + backend)) << refused.why;
  }
}

TEST(FeaturesTest, OffloadThatABackendCannotRunIsE1505) {
  for (const char* backend : {"cpu", "xla"}) {
    recipe::Recipe recipe = testing_support::hybrid_recipe();
    recipe.backend = backend;
    recipe.layout.offload = recipe::Offload::optimizer;
    const base::Problem problem =
        testing_support::problem_of(base::Code::E1505, [&] { runtime::backend_that_runs(recipe); });
    EXPECT_EQ(problem.where, "layout.offload: optimizer");
    EXPECT_EQ(problem.next, "set layout.offload: none, or use another backend");
    recipe.layout.offload = recipe::Offload::activations;
    testing_support::problem_of(base::Code::E1505, [&] { runtime::backend_that_runs(recipe); });
  }
}

TEST(FeaturesTest, WhatTheLayoutLeavesWithoutEffectIsOff) {
  const Feature schedule = feature_of(features_with("cpu", {}), "layout.schedule");
  EXPECT_EQ(schedule.state, FeatureState::off);
  EXPECT_EQ(schedule.why, "layout.pipeline_parallel is 1");
}

TEST(FeaturesTest, ADegreeThatGatesStopIsLimited) {
  const std::vector<Feature> features = features_with("cpu", {"layout.expert_parallel=8"});
  const Feature experts = feature_of(features, "layout.expert_parallel");
  EXPECT_EQ(experts.value, "8");
  EXPECT_EQ(experts.state, FeatureState::limited) << "there are 8 experts";
  EXPECT_NE(experts.why.find("not 16: E1403"), std::string::npos) << experts.why;
}

TEST(FeaturesTest, EveryLineThatIgnoresAKeyAppliesHereAsItDoesToRuns) {
  for (const runtime::Backend& backend : runtime::all_backends()) {
    recipe::Recipe recipe = testing_support::hybrid_recipe();
    recipe.backend = backend.name;
    const std::vector<Feature> features = features_of(plan::PlannedRecipe(recipe), backend);
    for (const recipe::IgnoredKey& line : backend.ignores) {
      if (line.applies && !line.applies(recipe)) continue;
      const Feature feature = feature_of(features, line.key);
      EXPECT_EQ(feature.state, FeatureState::off) << backend.name << " " << line.key;
      EXPECT_EQ(feature.why, line.decides);
    }
    for (const Feature& feature : features)
      EXPECT_EQ(feature.why.empty(), feature.state == FeatureState::on) << feature.key;
  }
}

}  // namespace
}  // namespace megacpp::launch
