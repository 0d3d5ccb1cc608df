// SPDX-License-Identifier: Apache-2.0
#include "megacpp/compile/state_table.h"

#include <gtest/gtest.h>

#include <chrono>

#include "megacpp/ops/builder.h"

namespace megacpp::compile {
namespace {

// Two slots of a batch, and a weight that both read.
StagePrograms stage_of(size_t micro_steps) {
  StagePrograms stage;
  for (const std::string prefix : {"slot0.", "slot1."}) {
    Program program{.kind = ProgramKind::forward, .graph = ir::Graph("forward")};
    ops::Builder builder(program.graph);
    const ir::TensorType type{ir::DType::f32, {2}};
    program.graph.add_output({.name = "y",
                              .value = builder.add(builder.input(prefix + "batch.x", type, ir::Role::batch),
                                                   builder.input("w", type, ir::Role::weight))});
    for (int i = 0; i < 100; ++i) builder.input("w" + std::to_string(i), type, ir::Role::weight);
    stage.programs.push_back(std::move(program));
  }
  for (size_t i = 0; i < micro_steps; ++i)
    stage.step.push_back({.program = i % 2, .prefix = i % 2 == 0 ? "slot0." : "slot1."});
  return stage;
}

TEST(StateTableTest, EverySlotHasItsBatchAndWeightsAreListedOnce) {
  const std::vector<StateTensor> table = state_table(stage_of(5), {}, {});
  ASSERT_EQ(table.size(), 103u);
  for (const StateTensor& tensor : table) {
    const bool is_batch = tensor.role == ir::Role::batch;
    EXPECT_EQ(tensor.staged_as, is_batch ? "batch.x" : "") << tensor.name;
    EXPECT_EQ(tensor.per_micro_step, is_batch) << tensor.name;
  }
}

TEST(StateTableTest, AMillionMicroStepsTakeNoLongerThanTheirPrograms) {
  const StagePrograms stage = stage_of(size_t{1} << 20);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(state_table(stage, {}, {}).size(), 103u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
}

}  // namespace
}  // namespace megacpp::compile
