// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/state_table.h"

#include <gtest/gtest.h>

#include <chrono>

#include "megacpp/program/ops/builder.h"

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

TEST(StateTableTest, PlacesAndParametersAreThoseThatAreNamed) {
  const ir::Mesh mesh({{"data", 2}});
  const partition::Placements placements = {{"w", {{ir::DType::f32, {4}}, ir::parse_sharding("data", mesh)}}};
  const std::vector<blocks::Parameter> parameters = {{.name = "w"}, {.name = "w7", .trainable = false}};
  for (const StateTensor& tensor : state_table(stage_of(2), placements, parameters)) {
    const bool is_placed = tensor.name == "w", is_parameter = is_placed || tensor.name == "w7";
    EXPECT_EQ(tensor.whole.shape, (is_placed ? ir::Shape{4} : ir::Shape{2})) << tensor.name;
    EXPECT_EQ(tensor.sharding.is_replicated(), !is_placed) << tensor.name;
    EXPECT_EQ(tensor.sharding.dims.size(), 1u) << tensor.name;
    EXPECT_EQ(tensor.trainable, is_placed) << tensor.name;
    EXPECT_EQ(tensor.kept, is_parameter) << tensor.name;
    EXPECT_EQ(local_type(tensor, mesh).shape, ir::Shape{2}) << tensor.name << ": half of 4, or all of 2";
  }
}

TEST(StateTableTest, WhatTheUpdateReadsIsOfTheStepAndOptimizerStateIsKept) {
  StagePrograms stage;
  Program update{.kind = ProgramKind::update, .graph = ir::Graph("update")};
  ops::Builder builder(update.graph);
  const ir::TensorType type{ir::DType::f32, {2}};
  builder.input("batch.lr", {ir::DType::f32, {}}, ir::Role::batch);
  builder.input("w.m", type, ir::Role::optimizer);
  builder.input("grad.w", type, ir::Role::gradient);
  stage.programs.push_back(std::move(update));
  stage.step = {{.program = 0}};
  const std::vector<StateTensor> table = state_table(stage, {}, {{.name = "w"}});
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[0].name, "batch.lr");
  EXPECT_EQ(table[0].staged_as, "batch.lr");
  EXPECT_FALSE(table[0].per_micro_step) << "one for the whole step";
  EXPECT_FALSE(table[1].kept) << table[1].name;
  EXPECT_TRUE(table[2].kept) << table[2].name;
}

TEST(StateTableTest, WhatSeveralStagesKeepCountsOnceInTheFirst) {
  const auto tensor = [](const char* name, int64_t elements, bool kept) {
    return StateTensor{.name = name, .whole = {ir::DType::f32, {elements}}, .kept = kept};
  };
  Compiled compiled;
  compiled.stages.resize(2);
  compiled.stages[0].state = {tensor("a", 1, true), tensor("carry.0", 50, false), tensor("embed", 10, true)};
  compiled.stages[1].state = {tensor("b", 3, true), tensor("embed", 10, true)};
  EXPECT_EQ(kept_bytes_by_stage(compiled), (std::vector<int64_t>{44, 12}));
  EXPECT_EQ(kept_bytes(compiled), 56);
}

}  // namespace
}  // namespace megacpp::compile
