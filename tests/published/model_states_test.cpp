// SPDX-License-Identifier: Apache-2.0
// Weights, gradients and optimizer state against the bytes per parameter of the ZeRO paper, of DeepSpeed and of
// Megatron-Core. Every row is exact, to the byte: the plan is the published number plus the differences the row names.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/published/dense_transformer.h"
#include "tests/published/model_state_rows.h"

namespace megacpp::published {

void PrintTo(const StateRow& row, std::ostream* out) { *out << row.name; }

namespace {

std::vector<StateRow> all_state_rows() {
  std::vector<StateRow> rows = zero_rows();
  for (const auto& more : {figure_rows(), megatron_rows()}) rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

class ModelStatesTest : public testing::TestWithParam<StateRow> {};

TEST_P(ModelStatesTest, IsThePublishedNumberAndTheNamedDifferences) {
  const StateRow& row = GetParam();
  recipe::Layout layout;
  layout.policy = row.policy;
  layout.zero = row.zero;
  layout.data_parallel = row.chips;
  layout.tensor_parallel = row.tensor;
  recipe::Recipe recipe = dense_transformer(row.sizes, layout);
  recipe.train.precision = row.precision;
  recipe.train.micro_steps = row.micro_steps;
  ASSERT_EQ(row.parameters() % row.chips, 0) << "what does not divide is padded, and no formula counts that";
  const memory::MemoryPlan plan = plan_of(recipe);
  const auto bytes = [&](const PerParameter& each) { return each.bytes(row.parameters(), row.chips); };

  const int64_t weight = bytes_of(plan, ir::Role::weight), gradient = bytes_of(plan, ir::Role::gradient),
                optimizer = bytes_of(plan, ir::Role::optimizer);
  // Everything but the loss: its one number is kept too.
  const int64_t copy = kept_bytes(recipe, [](const std::string& block) { return block != "loss"; }).of_weights;
  EXPECT_EQ(weight, bytes(row.weight));
  EXPECT_EQ(gradient, bytes(row.gradient));
  EXPECT_EQ(optimizer, bytes(row.optimizer));
  EXPECT_EQ(copy, bytes(row.copy));

  int64_t explained = bytes(row.published);
  std::string why;
  for (const Difference& each : row.differences) {
    explained += bytes(each.ours_less_theirs);
    why += "\n  " + std::to_string(bytes(each.ours_less_theirs)) + ": " + std::string(each.why);
  }
  EXPECT_EQ(weight + gradient + optimizer + copy, explained)
      << row.source << " is " << bytes(row.published) << " bytes; ours should differ by" << why;
  if (row.printed_gigabytes > 0) {
    EXPECT_NEAR(static_cast<double>(bytes(row.published)) / 1e9, row.printed_gigabytes, 0.05) << row.source;
  }
}

INSTANTIATE_TEST_SUITE_P(Published, ModelStatesTest, testing::ValuesIn(all_state_rows()),
                         [](const auto& row) { return row.param.name; });

// No formula counts alignment.
TEST(ModelStatesTest, AlignmentIsLessThanOneUnitPerTensor) {
  const memory::MemoryPlan plan = plan_of(dense_transformer({}, {}));
  int64_t bytes = 0;
  for (const memory::StateSlot& slot : plan.state) bytes += slot.type.bytes();
  constexpr int64_t kUnit = 64;
  EXPECT_GE(plan.state_bytes, bytes);
  EXPECT_LT(plan.state_bytes - bytes, kUnit * static_cast<int64_t>(plan.state.size()));
}

}  // namespace
}  // namespace megacpp::published
