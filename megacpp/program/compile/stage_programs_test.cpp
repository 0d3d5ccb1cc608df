// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/stage_programs.h"

#include <gtest/gtest.h>

#include <set>

#include "megacpp/program/ops/builder.h"

namespace megacpp::compile {
namespace {

constexpr size_t kStages = 3, kCarried = 100;

// Adds a stage that hands its values on under new names; nothing flows back.
void add_stage(Compilation& run, size_t stage) {
  const auto carry = [](size_t boundary, size_t i) {
    return partition::Carry{.name = "carry." + std::to_string(boundary * kCarried + i)};
  };
  ModelStage part;
  const auto index = static_cast<int64_t>(stage);
  Program forward{.kind = ProgramKind::forward, .stage = index, .graph = ir::Graph("forward")};
  ops::Builder builder(forward.graph);
  const ir::TensorType type{ir::DType::f32, {2}};
  for (size_t i = 0; i < kCarried; ++i) {
    if (stage > 0) part.carried_in.push_back(carry(stage - 1, i));
    const std::string name = stage > 0 ? part.carried_in.back().name : "x" + std::to_string(i);
    const ir::Role role = stage > 0 ? ir::Role::activation : ir::Role::batch;
    const ir::ValueId value = builder.neg(builder.input(name, type, role));
    if (stage + 1 < kStages) part.carried_out.push_back(carry(stage, i));
    const std::string out = stage + 1 < kStages ? part.carried_out.back().name : "y" + std::to_string(i);
    forward.graph.add_output({.name = out, .value = value});
  }
  run.programs.push_back(std::move(forward));
  run.programs.push_back({.kind = ProgramKind::backward, .stage = index, .graph = ir::Graph("backward")});
  run.parts.push_back(std::move(part));
}

std::multiset<int64_t> tags(const StagePrograms& chip, std::string_view op) {
  std::multiset<int64_t> found;
  for (const Program& program : chip.programs)
    for (const ir::Node& node : program.graph.nodes())
      if (node.op == op) found.insert(node.attrs.integer("tag"));
  return found;
}

TEST(AssembleStageTest, EveryValueOfEveryBoundaryHasATagOfItsOwn) {
  const plan::Plan plan{.stages = kStages};
  const schedule::Target target;
  Compilation run{.plan = plan, .target = target};
  run.inputs.resize(kStages);
  for (size_t stage = 0; stage < kStages; ++stage) add_stage(run, stage);
  const plan::PipelineSchedule schedule =
      plan::build_schedule(recipe::StageSchedule::gpipe, {.stages = kStages, .micros = 1, .chunks = 1});
  const plan::Simulation simulation = plan::simulate(schedule);
  std::vector<StagePrograms> chips;
  for (size_t stage = 0; stage < kStages; ++stage)
    chips.push_back(assemble_stage(run, schedule, simulation, static_cast<int64_t>(stage)));
  std::set<int64_t> all;
  for (size_t stage = 0; stage + 1 < kStages; ++stage) {
    const std::multiset<int64_t> sent = tags(chips[stage], "send");
    EXPECT_EQ(sent.size(), kCarried);
    EXPECT_EQ(sent, tags(chips[stage + 1], "recv"));
    all.insert(sent.begin(), sent.end());
  }
  EXPECT_EQ(all.size(), (kStages - 1) * kCarried);
}

// ---- The order of a step ----

/// Kind, micro-batch and prefix of every action: "forward 1 chunk0.slot1.".
std::vector<std::string> order_of(const StagePrograms& chip) {
  std::vector<std::string> order;
  for (const Action& action : chip.step)
    order.push_back(std::string(kind_name(chip.kind_of(action))) + " " + std::to_string(action.micro) + " " +
                    action.prefix + (action.reads_batch ? " reads batch" : ""));
  return order;
}

TEST(AssembleStageTest, AStepReceivesComputesAndSendsEveryMicroBatch) {
  const plan::Plan plan{.stages = kStages};
  const schedule::Target target;
  Compilation run{.plan = plan, .target = target};
  run.inputs.resize(kStages);
  for (size_t stage = 0; stage < kStages; ++stage) add_stage(run, stage);
  run.programs.push_back({.kind = ProgramKind::update, .stage = 1, .graph = ir::Graph("update")});
  const plan::PipelineSchedule schedule =
      plan::build_schedule(recipe::StageSchedule::gpipe, {.stages = kStages, .micros = 2, .chunks = 1});
  const plan::Simulation simulation = plan::simulate(schedule);
  const auto order = [&](int64_t stage) { return order_of(assemble_stage(run, schedule, simulation, stage)); };
  using Order = std::vector<std::string>;
  EXPECT_EQ(order(0), (Order{"forward 0 chunk0.slot0. reads batch", "send_activations 0 chunk0.slot0.",
                             "forward 1 chunk0.slot1. reads batch", "send_activations 1 chunk0.slot1."}));
  EXPECT_EQ(order(1), (Order{"receive_activations 0 chunk0.slot0.", "forward 0 chunk0.slot0. reads batch",
                             "send_activations 0 chunk0.slot0.", "receive_activations 1 chunk0.slot1.",
                             "forward 1 chunk0.slot1. reads batch", "send_activations 1 chunk0.slot1.", "update 1 "}));
  EXPECT_EQ(order(2), (Order{"receive_activations 0 chunk0.slot0.", "forward 0 chunk0.slot0. reads batch",
                             "receive_activations 1 chunk0.slot1.", "forward 1 chunk0.slot1. reads batch"}));
}

TEST(AssembleStageTest, WhatIsSentWaitsUnderANameOfItsOwn) {
  const plan::Plan plan{.stages = kStages};
  const schedule::Target target;
  Compilation run{.plan = plan, .target = target};
  run.inputs.resize(kStages);
  for (size_t stage = 0; stage < kStages; ++stage) add_stage(run, stage);
  const plan::PipelineSchedule schedule =
      plan::build_schedule(recipe::StageSchedule::gpipe, {.stages = kStages, .micros = 1, .chunks = 1});
  const StagePrograms chip = assemble_stage(run, schedule, plan::simulate(schedule), 1);
  EXPECT_NE(chip.find_state("chunk0.slot0.carry.0"), nullptr) << "received";
  EXPECT_NE(chip.find_state("chunk0.slot0.leaving.carry.100"), nullptr) << "sent";
  EXPECT_EQ(chip.find_state("chunk0.slot0.carry.100"), nullptr);
}

}  // namespace
}  // namespace megacpp::compile
