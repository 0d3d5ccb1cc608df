// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/compiled.h"

#include <gtest/gtest.h>

#include <set>

#include "megacpp/core/base/error.h"

namespace megacpp::compile {
namespace {

StateTensor weight(const std::string& name) { return {.name = name, .whole = {ir::DType::f32, {4}}, .kept = true}; }

/// Two stages of four chips each; the weight of the head is in the second alone.
Compiled two_stages() {
  Compiled compiled;
  compiled.mesh = ir::Mesh({{"stage", 2}, {"data", 4}});
  compiled.stages.resize(2);
  compiled.stages[0].state = {weight("a"), weight("embed")};
  compiled.stages[1].state = {weight("embed"), weight("head")};
  for (const char* name : {"embed", "a", "head"}) compiled.parameters.push_back({.name = name});
  compiled.stages[0].flops = 10;
  compiled.stages[1].flops = 30;
  compiled.stages[0].memory.total_bytes = 200;
  compiled.stages[1].memory.total_bytes = 100;
  return compiled;
}

TEST(CompiledTest, EveryKindOfProgramHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (auto kind = static_cast<int>(ProgramKind::micro_step); kind <= static_cast<int>(ProgramKind::inference); ++kind)
    names.insert(kind_name(static_cast<ProgramKind>(kind)));
  EXPECT_EQ(names.size(), 13u);
  EXPECT_EQ(kind_name(ProgramKind::micro_step), "micro_step");
  EXPECT_EQ(kind_name(ProgramKind::backward_weight), "backward_weight");
  EXPECT_EQ(kind_name(ProgramKind::receive_cotangents), "receive_cotangents");
  EXPECT_EQ(kind_name(ProgramKind::convert_weights), "convert_weights");
  EXPECT_EQ(kind_name(ProgramKind::inference), "inference");
}

TEST(CompiledTest, ProgramsAreFoundByTheirKind) {
  StagePrograms stage;
  stage.programs = {
      {.kind = ProgramKind::convert_weights}, {.kind = ProgramKind::update}, {.kind = ProgramKind::update}};
  EXPECT_TRUE(stage.has(ProgramKind::update));
  EXPECT_FALSE(stage.has(ProgramKind::micro_step));
  EXPECT_EQ(stage.index_of(ProgramKind::update), 1u) << "the first of them";
  EXPECT_THROW(static_cast<void>(stage.index_of(ProgramKind::micro_step)), base::Error);
  EXPECT_TRUE(stage.is_update({.program = 1}));
  EXPECT_FALSE(stage.is_update({.program = 0}));
}

TEST(CompiledTest, StateIsFoundByItsName) {
  const Compiled compiled = two_stages();
  const StagePrograms& stage = compiled.stages[0];
  EXPECT_EQ(stage.find_state("a"), &stage.state[0]);
  EXPECT_EQ(stage.find_state("embed"), &stage.state[1]);
  for (const char* absent : {"A", "b", "head"}) EXPECT_EQ(stage.find_state(absent), nullptr) << absent;
  const partition::Placements placements = stage.placements();
  ASSERT_EQ(placements.size(), 2u);
  EXPECT_EQ(placements.at("a").whole.shape, ir::Shape{4});
}

TEST(CompiledTest, EveryChipRunsTheProgramsOfItsStage) {
  Compiled compiled = two_stages();
  for (int64_t chip = 0; chip < 8; ++chip) EXPECT_EQ(compiled.stage_of(chip), chip < 4 ? 0u : 1u) << chip;
  EXPECT_EQ(&compiled.programs_of(5), &compiled.stages[1]);
  EXPECT_EQ(compiled.reporting_chip(), 4) << "the first of the last stage";
  compiled.mesh = ir::Mesh({{"data", 4}, {"stage", 2}});
  EXPECT_EQ(compiled.reporting_chip(), 1);
  compiled.mesh = ir::Mesh({{"data", 8}});
  compiled.stages.resize(1);
  EXPECT_EQ(compiled.stage_of(7), 0u);
  EXPECT_EQ(compiled.reporting_chip(), 0);
}

TEST(CompiledTest, AStageHasTheParametersThatItHolds) {
  const Compiled compiled = two_stages();
  const auto names = [&](size_t stage) {
    std::vector<std::string> list;
    for (const blocks::Parameter& parameter : compiled.parameters_of(stage)) list.push_back(parameter.name);
    return list;
  };
  EXPECT_EQ(names(0), (std::vector<std::string>{"embed", "a"})) << "in the order of the model";
  EXPECT_EQ(names(1), (std::vector<std::string>{"embed", "head"}));
}

TEST(CompiledTest, TotalsAreOfAllChipsAndPasses) {
  Compiled compiled = two_stages();
  EXPECT_EQ(&compiled.largest(), &compiled.stages[0]);
  EXPECT_DOUBLE_EQ(compiled.flops_per_step(), 4 * 10 + 4 * 30);
  compiled.passes = {{.name = "01", .seconds = 1, .verify_seconds = 0.25},
                     {.name = "02", .seconds = 2, .verify_seconds = 0.5}};
  EXPECT_DOUBLE_EQ(compiled.compile_seconds(), 3);
  EXPECT_DOUBLE_EQ(compiled.verify_seconds(), 0.75);
}

}  // namespace
}  // namespace megacpp::compile
