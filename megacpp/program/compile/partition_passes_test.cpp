// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/partition_passes.h"

#include <gtest/gtest.h>

#include "megacpp/core/ir/text.h"
#include "tests/support/errors.h"

namespace megacpp::compile {
namespace {

// A program that reads the state "w" in this sharding and replaces it.
Program program_with(ProgramKind kind, int64_t stage, int64_t chunk, const std::string& sharding) {
  ir::Graph graph =
      ir::parse("graph \"p" + std::to_string(chunk) +
                "\" {\n  %0 = input() {dtype=\"f32\", name=\"w\", shape=[4,6], sharding=\"" + sharding +
                "\"} : f32[4,6] #weight\n  %1 = add(%0, %0) : f32[4,6] @embed\n  output \"w\" = %1 donates \"w\"\n}\n");
  return {.kind = kind, .stage = stage, .chunk = chunk, .graph = std::move(graph)};
}

class PartitionProgramsTest : public testing::Test {
 protected:
  void run(std::vector<Program> programs, bool partitions_itself = false) {
    plan_.stages = 2;
    plan_.layout = plan::ResolvedLayout({.pattern = "A", .depth = 4}, {.pipeline_parallel = 2, .virtual_stages = 2});
    plan_.parallel.mesh = ir::Mesh({{"data", 2}});
    target_.partitions_itself = partitions_itself;
    Compilation run{.plan = plan_, .target = target_};
    run.programs = std::move(programs);
    run.parts.resize(4);
    partition_programs(run);
    programs_ = std::move(run.programs);
  }

  plan::Plan plan_;
  schedule::Target target_;
  std::vector<Program> programs_;
};

TEST_F(PartitionProgramsTest, ChunksOfAStageThatDisagreeOnTheirStateAreRefused) {
  const auto chunks = [](const char* second) {
    return std::vector<Program>{program_with(ProgramKind::micro_step, 0, 0, "data,-"),
                                program_with(ProgramKind::micro_step, 0, 1, second)};
  };
  EXPECT_NO_THROW(run(chunks("data,-")));
  const base::Problem problem = testing_support::problem_of(base::Code::E9002, [&] { run(chunks("-,data")); });
  EXPECT_EQ(problem.where, "w");
  EXPECT_NE(problem.got.find("-,data read by program p1"), std::string::npos) << problem.got;
}

TEST_F(PartitionProgramsTest, StagesMayPlaceStateOfOneNameDifferently) {
  EXPECT_NO_THROW(run(
      {program_with(ProgramKind::micro_step, 0, 0, "data,-"), program_with(ProgramKind::micro_step, 1, 0, "-,data")}));
}

TEST_F(PartitionProgramsTest, ABackendThatPartitionsByItselfIsHeldToItToo) {
  const auto step = [](const char* update) {
    return std::vector<Program>{program_with(ProgramKind::micro_step, 0, 0, "data,-"),
                                program_with(ProgramKind::update, 0, 0, update)};
  };
  testing_support::problem_of(base::Code::E9002, [&] { run(step("-,data"), true); });
  for (const char* update : {"data,-", "auto"}) {
    run(step(update), true);
    EXPECT_EQ(ir::to_string(programs_[1].outputs.at("w").sharding, plan_.parallel.mesh), "data,-") << update;
  }
}

}  // namespace
}  // namespace megacpp::compile
