// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/parameter_table.h"

#include <gtest/gtest.h>

#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

using blocks::Dim;
using blocks::Parameter;

// Two blocks and what stands around them; hidden 64, 8 query heads, 4 KV heads of 8.
const std::vector<Parameter> kParameters = {
    {"embed.weight", {256, 64}, {Dim::vocab, Dim::whole}, {}, blocks::ParameterKind::embedding},
    {"block00.A.norm.weight", {64}, {Dim::whole}, {}, blocks::ParameterKind::norm},
    {"block00.A.wq", {64, 64}, {Dim::whole, Dim::heads}, {}},
    {"block00.A.wk", {64, 32}, {Dim::whole, Dim::kv_heads}, {}},
    {"block01.A.norm.weight", {64}, {Dim::whole}, {}, blocks::ParameterKind::norm},
    {"block01.A.wq", {64, 64}, {Dim::whole, Dim::heads}, {}},
    {"block01.A.wk", {64, 32}, {Dim::whole, Dim::kv_heads}, {}},
    {"block02.E.expert_bias", {8}, {Dim::whole}, {}, blocks::ParameterKind::bias, false},
};

Plan plan_in(const recipe::Layout& layout) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = layout;
  recipe.train.micro_steps = 2;
  return make_plan(recipe);
}

std::vector<ParameterRow> table_of(const recipe::Layout& layout, const std::vector<std::vector<Parameter>>& stages) {
  return parameter_table(plan_in(layout), stages);
}

TEST(ParameterTableTest, EqualBlocksFoldIntoOneRow) {
  const std::vector<ParameterRow> rows = table_of({.tensor_parallel = 4}, {kParameters});
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[1].name, "block*.A.norm.weight");
  EXPECT_TRUE(rows[1].replicated());
  EXPECT_EQ(rows[1].holders, 4);
  EXPECT_EQ(rows[1].stored_bytes, 2 * 64 * 4);
  EXPECT_EQ(rows[2].name, "block*.A.wq");
  EXPECT_EQ(rows[2].count, 2);
  EXPECT_FALSE(rows[2].replicated());
  EXPECT_EQ(rows[2].holders, 1);
  EXPECT_EQ(rows[2].local, (ir::Shape{64, 16}));
  EXPECT_EQ(rows[2].stored, "-,model");
  EXPECT_EQ(rows[2].why, "column-parallel over model: query heads");
  EXPECT_EQ(rows[3].local, (ir::Shape{64, 8}));
  EXPECT_EQ(rows[4].name, "block*.E.expert_bias");
  EXPECT_EQ(rows[4].optimizer, "");
}

TEST(ParameterTableTest, ParametersOfAnotherShapeStayApart) {
  std::vector<Parameter> parameters = kParameters;
  parameters[5].shape = {64, 128};
  EXPECT_EQ(table_of({}, {parameters}).size(), 6u);
}

TEST(ParameterTableTest, ReplicatedIsWhatMoreThanOneChipHolds) {
  for (const ParameterRow& row : table_of({}, {kParameters})) {
    EXPECT_FALSE(row.replicated()) << row.name;
    EXPECT_TRUE(row.why.starts_with("whole;") || row.why == "whole") << row.why;
  }
  // The first stage has block 0, the second the rest; both hold the embedding, as tied ones do.
  const std::vector<Parameter> first(kParameters.begin(), kParameters.begin() + 4);
  std::vector<Parameter> second(kParameters.begin() + 4, kParameters.end());
  second.push_back(kParameters[0]);
  const std::vector<ParameterRow> alone = table_of({.pipeline_parallel = 2}, {first, second});
  ASSERT_EQ(alone.size(), 9u);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].stage, i < 4 ? 0 : 1) << alone[i].name;
    EXPECT_EQ(alone[i].replicated(), alone[i].name == "embed.weight") << alone[i].name;
  }
  const std::vector<ParameterRow> pairs = table_of({.tensor_parallel = 2, .pipeline_parallel = 2}, {first, second});
  EXPECT_EQ(pairs[0].holders, 2) << "each half of the tied embedding, once in either stage";
  EXPECT_EQ(pairs[1].holders, 2);
  EXPECT_TRUE(pairs[1].replicated());
  EXPECT_EQ(pairs[1].why, "whole on every chip of its stage");
  EXPECT_FALSE(pairs[2].replicated());
}

TEST(ParameterTableTest, StateIsWhatTheOptimizersRecordLists) {
  const int64_t elements = 256 * 64 + 2 * (64 + 64 * 64 + 64 * 32);
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = {.data_parallel = 4, .zero = 1};
  for (const auto& [name, bytes] : {std::pair("adamw", 8), std::pair("sgd", 4)}) {
    recipe.optimizer.name = name;
    const Plan plan = make_plan(recipe);
    EXPECT_EQ(state_bytes(plan, kParameters).optimizer, elements * bytes / 4) << name;
    EXPECT_EQ(spec_of(plan, kParameters[2]).state.size() * 4, static_cast<size_t>(bytes)) << name;
    EXPECT_TRUE(spec_of(plan, kParameters[7]).state.empty()) << "nothing trains it";
  }
}

TEST(ParameterTableTest, MuonKeepsOneNumberForMatricesAndTwoForTheRest) {
  recipe::Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = {.data_parallel = 4, .zero = 1};
  recipe.optimizer.name = "muon";
  const Plan plan = make_plan(recipe);
  int64_t elements = 0;
  for (const blocks::Parameter& parameter : kParameters)
    if (parameter.trainable)
      elements += ir::num_elements(parameter.shape) * (parameter.kind == blocks::ParameterKind::matrix ? 1 : 2);
  EXPECT_EQ(state_bytes(plan, kParameters).optimizer, elements * 4 / 4);
  for (const ParameterRow& row : parameter_table(plan, std::vector<std::vector<blocks::Parameter>>{kParameters})) {
    const bool is_matrix = row.group == "Muon, decay 0.1";
    EXPECT_EQ(is_matrix, row.name.ends_with(".wq") || row.name.ends_with(".wk")) << row.name;
    EXPECT_EQ(row.why.ends_with("; whole matrices for Newton-Schulz"), is_matrix) << row.why;
  }
}

TEST(ParameterTableTest, FrozenWeightsHaveNoGradientAndNoStateAndAreSplitByZero3) {
  std::vector<Parameter> frozen = kParameters;
  for (Parameter& parameter : frozen) {
    parameter.trainable = false;
    parameter.frozen = true;
  }
  const int64_t elements = 256 * 64 + 2 * (64 + 64 * 64 + 64 * 32) + 8;
  for (const int64_t zero : {0, 1, 2, 3}) {
    const Plan plan = plan_in({.data_parallel = 4, .zero = zero});
    const StateBytes bytes = state_bytes(plan, frozen);
    EXPECT_EQ(bytes.weights, elements * 4 / (zero >= 3 ? 4 : 1)) << zero;
    EXPECT_EQ(bytes.total(), bytes.weights) << zero << ": neither gradients nor state nor copies";
    for (const ParameterRow& row : table_of({.data_parallel = 4, .zero = zero}, {frozen})) {
      EXPECT_EQ(row.gradient + row.optimizer + row.group, "") << row.name;
      EXPECT_EQ(row.why, zero < 3 ? "whole on every chip; frozen"
                                  : "whole on every chip; frozen; weight split over data (zero 3)");
    }
  }
  const Plan kept = plan_in(
      {.data_parallel = 4, .zero = 3, .reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::none}});
  EXPECT_EQ(state_bytes(kept, frozen).kept, elements * 4);
}

TEST(ParameterTableTest, ZeroSplitsStateStepByStep) {
  const int64_t elements = 256 * 64 + 2 * (64 + 64 * 64 + 64 * 32), bias = 8 * 4;
  for (const int64_t zero : {0, 1, 2, 3}) {
    const StateBytes bytes = state_bytes(plan_in({.data_parallel = 4, .zero = zero}), kParameters);
    EXPECT_EQ(bytes.weights, bias + elements * 4 / (zero >= 3 ? 4 : 1)) << zero;
    int64_t replicated = 0;
    for (const ParameterRow& row : table_of({.data_parallel = 4, .zero = zero}, {kParameters}))
      if (row.replicated()) replicated += row.stored_bytes;
    EXPECT_EQ(replicated, zero >= 3 ? bias : bytes.weights) << zero;
    EXPECT_EQ(bytes.gradients, elements * 4 / (zero >= 2 ? 4 : 1)) << zero;
    EXPECT_EQ(bytes.optimizer, elements * 8 / (zero >= 1 ? 4 : 1)) << zero;
    EXPECT_EQ(bytes.kept, 0) << zero;
  }
  const Plan whole = plan_in(
      {.data_parallel = 4, .zero = 3, .reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::none}});
  EXPECT_EQ(state_bytes(whole, kParameters).kept, elements * 4);
  const Plan staged = plan_in({.data_parallel = 4,
                               .pipeline_parallel = 2,
                               .zero = 3,
                               .reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::none}});
  EXPECT_EQ(state_bytes(staged, kParameters).kept, elements * 4);
}

}  // namespace
}  // namespace megacpp::plan
