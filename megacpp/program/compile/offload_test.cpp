// SPDX-License-Identifier: Apache-2.0
// What `layout.offload` has in the host's memory, as training is compiled beside one: bytes of both memories, and where
// programs copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "megacpp/program/compile/compile.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/optim/optimizer_def.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/plain_target.h"

namespace megacpp::compile {
namespace {

// Every optimizer, on one chip and on several: the state of each is in one memory or the other, and replaced in place.
TEST(OffloadTest, StateIsPlannedInTheHostsMemoryAndStreamedInTheUpdateAlone) {
  schedule::Target target = testing_support::plain_target();
  target.tiers = {ir::Tier::host};
  for (const std::string& optimizer : optim::optimizer_names())
    for (const char* layout : {"layout.data_parallel=1", "layout.data_parallel=2", "layout.pipeline_parallel=2"}) {
      SCOPED_TRACE(optimizer + " " + layout);
      const std::vector<std::string> base = {"optimizer.name=" + optimizer, layout, "train.micro_steps=2",
                                             "model.pattern=AEMR", "model.depth=4"};
      std::vector<std::string> offloaded = base;
      offloaded.push_back("layout.offload=optimizer");
      const std::string file = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml";
      const Compiled before = compile_training(plan::make_plan(recipe::load(file, base)), target);
      const Compiled after = compile_training(plan::make_plan(recipe::load(file, offloaded)), target);
      for (size_t stage = 0; stage < after.stages.size(); ++stage) {
        const StagePrograms &one = before.stages[stage], &other = after.stages[stage];
        EXPECT_GT(other.memory.of_host().bytes, 0);
        EXPECT_EQ(one.memory.of_host().bytes, 0);
        EXPECT_EQ(other.memory.state_bytes + other.memory.of_host().bytes, one.memory.state_bytes);
        for (const memory::StateSlot& slot : other.memory.state)
          EXPECT_EQ(slot.tier == ir::Tier::host, slot.role == ir::Role::optimizer) << slot.name;
        for (const Program& program : other.programs) {
          const bool has_copies = std::ranges::any_of(
              program.graph.nodes(), [](const ir::Node& node) { return node.op == ops::kCopyStartOp; });
          EXPECT_EQ(has_copies, program.kind == ProgramKind::update) << program.graph.name();
        }
      }
    }
}

Compiled beside_a_host(const std::vector<std::string>& settings) {
  schedule::Target target = testing_support::plain_target();
  target.tiers = {ir::Tier::host};
  return compile_training(
      plan::make_plan(recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", settings)), target);
}

// Values that programs of a kind copy to the host: bytes, aligned, by letter of their block.
std::map<std::string, int64_t> stored_bytes(const StagePrograms& stage, ProgramKind kind) {
  std::map<std::string, int64_t> bytes;
  for (const Program& program : stage.programs)
    for (const ir::Node& node : program.graph.nodes())
      if (program.kind == kind && node.op == ops::kCopyStartOp && ops::tier_of(node) == ir::Tier::host)
        bytes[std::string(ir::scope_letter(node.scope))] +=
            (program.graph.type(node.results[0]).bytes() + 63) / 64 * 64;
  return bytes;
}

int64_t total_of(const std::map<std::string, int64_t>& bytes) {
  int64_t total = 0;
  for (const auto& [letter, of_letter] : bytes) total += of_letter;
  return total;
}

TEST(OffloadTest, ActivationsArePlannedInTheHostsMemoryBetweenThePasses) {
  const Compiled before = beside_a_host({"train.micro_steps=2"});
  const Compiled after = beside_a_host({"train.micro_steps=2", "layout.offload=activations"});
  const memory::MemoryPlan &one = before.stages[0].memory, &other = after.stages[0].memory;
  const std::map<std::string, int64_t> stored = stored_bytes(after.stages[0], ProgramKind::micro_step);
  EXPECT_EQ(stored.size(), 3U) << "A, E and M; the only R is the last block, which keeps its own";
  EXPECT_EQ(other.of_host().bytes, total_of(stored)) << "all of them are there when the forward pass ends";
  EXPECT_EQ(other.state_bytes, one.state_bytes) << "state stays";
  EXPECT_LT(2 * (other.total_bytes - other.state_bytes), one.total_bytes - one.state_bytes);
  EXPECT_EQ(total_of(stored_bytes(after.stages[0], ProgramKind::update)), 0);
  const Compiled longer = beside_a_host({"train.micro_steps=4", "layout.offload=activations"});
  EXPECT_EQ(longer.stages[0].memory.of_host().bytes, other.of_host().bytes)
      << "micro-steps follow each other in the same bytes";
}

TEST(OffloadTest, BlocksAreChosenByLetter) {
  const Compiled all = beside_a_host({"layout.offload=activations"});
  const Compiled some = beside_a_host({"layout.offload=activations", "layout.offload_blocks=[M]"});
  const std::map<std::string, int64_t> stored = stored_bytes(some.stages[0], ProgramKind::micro_step);
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_EQ(stored.begin()->first, "M");
  EXPECT_EQ(stored.at("M"), stored_bytes(all.stages[0], ProgramKind::micro_step).at("M")) << "as with all letters";
  EXPECT_EQ(some.stages[0].memory.of_host().bytes, stored.at("M"));
  EXPECT_LT(some.stages[0].memory.of_host().bytes, all.stages[0].memory.of_host().bytes);
  EXPECT_GT(some.stages[0].memory.total_bytes, all.stages[0].memory.total_bytes);
}

TEST(OffloadTest, AllIsStateAndActivations) {
  const Compiled state = beside_a_host({"layout.offload=optimizer"}),
                 activations = beside_a_host({"layout.offload=activations"});
  const Compiled both = beside_a_host({"layout.offload=all"});
  EXPECT_EQ(both.stages[0].memory.of_host().bytes,
            state.stages[0].memory.of_host().bytes + activations.stages[0].memory.of_host().bytes);
  EXPECT_EQ(both.stages[0].memory.state_bytes, state.stages[0].memory.state_bytes);
  EXPECT_EQ(state.stages[0].memory.of_host().activation_bytes, 0);
  EXPECT_EQ(both.stages[0].memory.of_host().activation_bytes, activations.stages[0].memory.of_host().bytes);
}

// Whether the chip itself has something to do behind the last copy that is waited for.
bool ends_with_work(const ir::Graph& graph) {
  const auto is_done = [](const ir::Node& node) { return node.op == ops::kCopyDoneOp; };
  const auto last = std::find_if(graph.nodes().rbegin(), graph.nodes().rend(), is_done);
  return std::any_of(graph.nodes().rbegin(), last, [](const ir::Node& node) {
    return ops::op_def(node.op).is_work() && !ops::op_def(node.op).is_collective;
  });
}

// What a forward program keeps is state of its micro-batch: every backward program has it from the host, but for what
// the last blocks leave.
TEST(OffloadTest, APipelineHandsActivationsOverThroughTheHost) {
  for (const char* schedule : {"layout.schedule=1f1b", "layout.schedule=zero_bubble"}) {
    SCOPED_TRACE(schedule);
    const std::vector<std::string> base = {"train.micro_steps=4", "layout.pipeline_parallel=2", schedule};
    std::vector<std::string> offloaded = base;
    offloaded.push_back("layout.offload=activations");
    const Compiled before = beside_a_host(base), after = beside_a_host(offloaded);
    for (size_t stage = 0; stage < after.stages.size(); ++stage) {
      const StagePrograms& chip = after.stages[stage];
      int64_t on_host = 0;
      for (const memory::StateSlot& slot : chip.memory.state) {
        if (slot.tier != ir::Tier::host) continue;
        EXPECT_NE(slot.name.find(".kept."), std::string::npos) << slot.name;
        on_host += (slot.type.bytes() + 63) / 64 * 64;
      }
      EXPECT_GT(on_host, 0);
      for (const Program& program : chip.programs)
        EXPECT_TRUE(program.kind != ProgramKind::forward || ends_with_work(program.graph)) << program.graph.name();
      EXPECT_EQ(chip.memory.of_host().bytes, on_host) << "nothing but state";
      EXPECT_EQ(chip.memory.of_host().activation_bytes, on_host) << "of micro-batches";
      EXPECT_EQ(total_of(stored_bytes(chip, ProgramKind::forward)), on_host) << "each slot has its own";
      EXPECT_EQ(chip.memory.state_bytes + on_host, before.stages[stage].memory.state_bytes);
      EXPECT_LT(chip.memory.total_bytes, before.stages[stage].memory.total_bytes);
    }
  }
}

// Without a host beside it the programs are those without the key.
TEST(OffloadTest, ATargetWithOneMemoryKeepsEverythingThere) {
  const std::string file = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml";
  for (const char* offload : {"layout.offload=optimizer", "layout.offload=activations", "layout.offload=all"}) {
    const Compiled compiled = compile_training(plan::make_plan(recipe::load(file, std::vector<std::string>{offload})),
                                               testing_support::plain_target());
    EXPECT_EQ(compiled.stages[0].memory.of_host().bytes, 0) << offload;
  }
}

}  // namespace
}  // namespace megacpp::compile
