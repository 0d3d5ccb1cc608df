// SPDX-License-Identifier: Apache-2.0
// Plans extended from shallow ones against those of the whole model.
#include "megacpp/hardware/fit/deep_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/hardware/fit/deep_tables.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/program/memory/report.h"
#include "tests/support/assumptions.h"

namespace megacpp::fit {
namespace {

constexpr int64_t kMostWhole = 64;
// What plans of deep models are off by at most; docs/planning.md says the same.
constexpr double kMostOffTime = 5e-3, kMostOffPeak = 1e-2, kMostOffRole = 6e-2;

using DeepSettings = std::vector<std::string>;

struct DeepCase {
  std::string hardware;
  DeepSettings settings;
};

std::string deep_text_of(const DeepCase& each) {
  std::string text = each.hardware;
  for (const std::string& setting : each.settings) text += " " + setting;
  return text;
}

recipe::Recipe deep_recipe_of(const DeepCase& each) {
  DeepSettings settings = {"model.depth=112", "train.recompute=none"};
  settings.insert(settings.end(), each.settings.begin(), each.settings.end());
  return testing_support::test_recipe(settings);
}

struct Both {
  Estimate whole, deep;
};

Both both_of(const DeepCase& each) {
  Assumptions assumptions = testing_support::test_assumptions(each.hardware);
  const recipe::Recipe recipe = deep_recipe_of(each);
  Estimate whole = make_estimate(recipe, assumptions);
  assumptions.most_planned_whole = kMostWhole;
  return {std::move(whole), make_estimate(recipe, assumptions)};
}

double off(double found, double expected) { return expected == 0 ? found : std::abs(found / expected - 1); }
double off(int64_t found, int64_t expected) { return off(static_cast<double>(found), static_cast<double>(expected)); }

void expect_same_memory(const memory::MemoryPlan& deep, const memory::MemoryPlan& whole) {
  EXPECT_EQ(deep.state_bytes, whole.state_bytes);
  EXPECT_EQ(deep.of_host().bytes, whole.of_host().bytes);
  EXPECT_LE(off(deep.total_bytes, whole.total_bytes), kMostOffPeak) << deep.total_bytes << " " << whole.total_bytes;
  EXPECT_EQ(deep.peak_program, whole.peak_program);
  // What is alive at moments with as many bytes may be for other things.
  std::map<ir::Role, int64_t> roles;
  for (const memory::Item& item : whole.items) roles[item.role] += item.bytes;
  for (const memory::Item& item : deep.items) roles[item.role] -= item.bytes;
  for (const auto& [role, bytes] : roles)
    EXPECT_LE(std::abs(static_cast<double>(bytes)), kMostOffRole * static_cast<double>(whole.total_bytes))
        << ir::role_name(role);
  EXPECT_LE(off(deep.lower_bound, whole.lower_bound), kMostOffPeak);
}

void expect_same_time(const StepTime& deep, const StepTime& whole) {
  EXPECT_LE(off(deep.seconds(), whole.seconds()), kMostOffTime) << deep.seconds() << " " << whole.seconds();
  EXPECT_LE(std::abs(deep.limit - whole.limit), kMostOffTime * whole.seconds())
      << "it is of small steps mostly waiting";
  EXPECT_LE(off(deep.mfu, whole.mfu), kMostOffTime);
  ASSERT_EQ(deep.links.size(), whole.links.size());
  for (const LinkTime& link : whole.links) {
    const auto at = std::ranges::find(deep.links, link.axes, &LinkTime::axes);
    ASSERT_NE(at, deep.links.end());
    EXPECT_LE(off(at->bytes, link.bytes), kMostOffTime) << link.axes;
  }
}

void expect_same_reports(const Both& both) {
  ASSERT_EQ(both.deep.fit.groups.size(), both.whole.fit.groups.size());
  EXPECT_EQ(both.deep.fit.snapshot, both.whole.fit.snapshot);
  EXPECT_EQ(both.deep.fit.verdict(), both.whole.fit.verdict());
  EXPECT_EQ(both.deep.compiled.model_flops, both.whole.compiled.model_flops);
  for (size_t stage = 0; stage < both.whole.compiled.stages.size(); ++stage)
    EXPECT_LE(off(both.deep.compiled.stages[stage].flops, both.whole.compiled.stages[stage].flops), 1e-12);
  ASSERT_EQ(both.deep.reserved.size(), both.whole.reserved.size());
  for (size_t stage = 0; stage < both.whole.reserved.size(); ++stage)
    EXPECT_LE(off(both.deep.reserved[stage].expected, both.whole.reserved[stage].expected), kMostOffPeak);
}

void expect_same_tables(const Both& both) {
  const ShallowPlans& shallow = both.deep.shallow.value();
  const compile::Compiled& whole = both.whole.compiled;
  std::vector<std::vector<blocks::Parameter>> by_stage;
  for (size_t stage = 0; stage < whole.stages.size(); ++stage) by_stage.push_back(whole.parameters_of(stage));
  const std::vector<plan::ParameterRow> rows = plan::parameter_table(both.whole.plan(), by_stage);
  const std::vector<plan::ParameterRow> deep = deep_parameter_table(shallow);
  ASSERT_EQ(deep.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(deep[i].name, rows[i].name);
    EXPECT_EQ(deep[i].count, rows[i].count) << rows[i].name;
    EXPECT_EQ(deep[i].stored_bytes, rows[i].stored_bytes) << rows[i].name;
  }
  int64_t elements = 0;
  for (const blocks::Parameter& parameter : whole.parameters) elements += ir::num_elements(parameter.shape);
  EXPECT_EQ(deep_parameters(shallow), elements);
  for (size_t stage = 0; stage < whole.stages.size(); ++stage)
    EXPECT_EQ(deep_state_bytes(shallow, stage).total(), plan::state_bytes(both.whole.plan(), by_stage[stage]).total());
  for (size_t stage = 0; stage < whole.stages.size(); ++stage) {
    const hw::Chip chip = hw::device_of(testing_support::test_assumptions("h100:1").slice.chip);
    EXPECT_EQ(deep_argument_bytes(shallow, stage, chip).total(),
              argument_bytes(whole.stages[stage].memory, both.whole.recipe(), chip).total());
  }
  const int64_t sent = compile::step_bytes(
      compile::collective_report(whole, both.whole.plan(), plan::changes_to(both.whole.recipe())), 1);
  EXPECT_LE(off(compile::step_bytes(deep_collectives(shallow), 1), sent), kMostOffTime);
}

class DeepPlanTest : public ::testing::TestWithParam<DeepCase> {};

TEST_P(DeepPlanTest, EqualsThatOfTheWholeModel) {
  SCOPED_TRACE(deep_text_of(GetParam()));
  const Both both = both_of(GetParam());
  ASSERT_FALSE(both.whole.shallow);
  ASSERT_TRUE(both.deep.shallow) << "not on lines";
  const auto stages = both.whole.compiled.stages.size();
  ASSERT_EQ(both.deep.compiled.stages.size(), stages);
  for (size_t stage = 0; stage < stages; ++stage)
    expect_same_memory(both.deep.compiled.stages[stage].memory, both.whole.compiled.stages[stage].memory);
  expect_same_time(both.deep.time, both.whole.time);
  expect_same_reports(both);
  expect_same_tables(both);
}

const DeepSettings kDense = {"model.feed_forward.experts=0"};

DeepSettings with(const DeepSettings& first, const DeepSettings& more) {
  DeepSettings all = first;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, DeepPlanTest,
    ::testing::Values(
        DeepCase{"host:1", kDense}, DeepCase{"host:1", {"train.micro_steps=4"}},
        DeepCase{"h100:4", {"layout.data_parallel=4", "layout.zero=0", "layout.policy=fsdp"}},
        DeepCase{"h100:4", {"layout.data_parallel=4", "layout.zero=3", "train.precision=bf16"}},
        DeepCase{"h100:4", {"layout.tensor_parallel=2", "layout.data_parallel=2", "layout.policy=megatron"}},
        DeepCase{"h100:4", {"layout.expert_parallel=2", "layout.data_parallel=2", "train.micro_steps=2"}},
        DeepCase{"h100:1", {"train.recompute=selective", "train.precision=bf16"}},
        DeepCase{"v6e:2x2", with(kDense, {"layout.data_parallel=4", "layout.zero=3", "train.precision=bf16"})},
        DeepCase{"v6e:2x2", {"layout.data_parallel=2", "layout.tensor_parallel=2", "train.recompute=full"}},
        DeepCase{"host:2", with(kDense, {"layout.pipeline_parallel=2", "train.micro_steps=4", "model.depth=224"})}),
    [](const ::testing::TestParamInfo<DeepCase>& info) {
      std::string name = std::to_string(info.index) + "_" + deep_text_of(info.param);
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

TEST(DeepPlanTest, APublishedDepthIsPlannedWhole) {
  Assumptions assumptions = testing_support::test_assumptions("h100:1");
  assumptions.most_planned_whole = kMostPlannedWhole;
  EXPECT_FALSE(make_estimate(deep_recipe_of({"h100:1", {"model.depth=128"}}), assumptions).shallow);
}

// The peak of shallow plans is at the logits, that of the deep one where all blocks are kept.
TEST(DeepPlanTest, ThePeakMayBeElsewhereThanInShallowPlans) {
  const Both both = both_of({"h100:1", with(kDense, {"model.vocab=4096", "model.depth=240", "train.batch=1"})});
  ASSERT_TRUE(both.deep.shallow);
  const memory::MemoryPlan& deep = both.deep.worst_memory();
  EXPECT_LE(off(deep.lower_bound, both.whole.worst_memory().lower_bound), kMostOffPeak);
}

TEST(DeepPlanTest, AHundredThousandBlocksArePlannedAtOnce) {
  Assumptions assumptions = testing_support::test_assumptions("h100:4");
  assumptions.most_planned_whole = kMostPlannedWhole;
  const auto at = [&](const char* depth) {
    return make_estimate(deep_recipe_of({"h100:4", {"layout.data_parallel=4", std::string("model.depth=") + depth}}),
                         assumptions);
  };
  const Estimate deep = at("100000"), half = at("50000");
  ASSERT_TRUE(deep.shallow);
  EXPECT_NEAR(deep.time.seconds() / half.time.seconds(), 2, 1e-2);
  EXPECT_NEAR(static_cast<double>(deep.fit.worst().planned) / static_cast<double>(half.fit.worst().planned), 2, 1e-2);
}

}  // namespace
}  // namespace megacpp::fit
