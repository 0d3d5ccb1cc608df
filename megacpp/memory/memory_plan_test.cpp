// SPDX-License-Identifier: Apache-2.0
// Runs random programs in one byte arena at the planned offsets and looks, at every node, whether each operand still
// holds what was put there.
#include "megacpp/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "megacpp/base/error.h"
#include "megacpp/ir/text.h"
#include "megacpp/memory/buffers.h"
#include "megacpp/memory/report.h"
#include "megacpp/ops/builder.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/schedule/fold_accumulation.h"
#include "megacpp/schedule/fold_sums.h"
#include "megacpp/schedule/fuse.h"
#include "megacpp/schedule/narrow_results.h"
#include "megacpp/schedule/order.h"
#include "megacpp/schedule/remove_dead.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"

namespace megacpp::memory {
namespace {

using ops::Tensor;
using testing_support::decode;
using testing_support::encode;
using testing_support::is_close;

schedule::Target test_target() {
  return {.name = "test",
          .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
          .workspace_bytes = [](std::string_view op, const ops::NodeView&) { return op == "dot" ? int64_t{100} : 0; },
          .alignment = 64};
}

ir::Graph scheduled(const ir::Graph& graph) {
  return schedule::order_for_low_peak(
      schedule::lower_elementwise(schedule::fuse(schedule::fold_accumulation(schedule::remove_dead(graph)))));
}

// One chip whose bytes are all in `arena`; every access is checked against the values kept aside.
class ArenaInterpreter {
 public:
  ArenaInterpreter(const MemoryPlan& plan)
      : plan_(plan), arena_(static_cast<size_t>(plan.total_bytes), std::byte{0xFF}) {}

  void set_state(const std::string& name, const Tensor& tensor) { write(tensor, plan_.find_state(name)->offset); }
  Tensor state(const std::string& name) const {
    const StateSlot* slot = plan_.find_state(name);
    return decode(slot->type, at(slot->offset, slot->type.bytes()));
  }

  void run(const ir::Graph& graph, const ProgramPlan& program) {
    std::vector<Tensor> expected(graph.values().size());
    for (size_t n = 0; n < graph.nodes().size(); ++n) {
      const ir::Node& node = graph.nodes()[n];
      if (node.op == ir::kInputOp) {
        expected[node.results[0].index] = read(graph, program, node.results[0]);
        EXPECT_EQ(program.value_offset[node.results[0].index], plan_.find_state(node.attrs.text("name"))->offset);
        continue;
      }
      std::vector<Tensor> operands;
      for (const ir::ValueId operand : node.operands) {
        operands.push_back(read(graph, program, operand));
        ASSERT_TRUE(is_close(operands.back(), expected[operand.index], 0.0))
            << "%" << operand.index << " was overwritten before node " << n << "\n"
            << ir::print(graph);
      }
      const int64_t workspace = program.workspace_offset[n];
      ASSERT_EQ(workspace >= 0, node.op == "dot");
      if (workspace >= 0) std::fill_n(at(workspace, 100), 100, std::byte{0xEE});
      const std::vector<Tensor> results = ops::evaluate_op(node.op, operands, node.attrs);
      for (size_t r = 0; r < results.size(); ++r) {
        expected[node.results[r].index] = results[r];
        write(results[r], program.value_offset[node.results[r].index]);
      }
    }
    expect_outputs(graph, program, expected);
  }

 private:
  void expect_outputs(const ir::Graph& graph, const ProgramPlan& program, const std::vector<Tensor>& expected) {
    for (const Buffers::Copy& copy : program.final_copies)
      write(read(graph, program, copy.from), plan_.find_state(copy.to_state)->offset);
    for (const ir::Output& output : graph.outputs()) {
      const Tensor& wanted = expected[output.value.index];
      EXPECT_TRUE(is_close(read(graph, program, output.value), wanted, 0.0)) << output.name << "\n" << ir::print(graph);
      if (output.donated.empty()) continue;
      EXPECT_TRUE(is_close(state(output.donated), wanted, 0.0)) << output.donated << "\n" << ir::print(graph);
    }
  }

  std::byte* at(int64_t offset, int64_t bytes) {
    EXPECT_TRUE(offset >= 0 && offset + bytes <= plan_.total_bytes) << offset << " + " << bytes;
    return arena_.data() + offset;
  }
  const std::byte* at(int64_t offset, int64_t bytes) const {
    return const_cast<ArenaInterpreter*>(this)->at(offset, bytes);
  }
  void write(const Tensor& tensor, int64_t offset) { encode(tensor, at(offset, tensor.type.bytes())); }
  Tensor read(const ir::Graph& graph, const ProgramPlan& program, ir::ValueId value) const {
    return decode(graph.type(value), at(program.value_offset[value.index], graph.type(value).bytes()));
  }

  const MemoryPlan& plan_;
  std::vector<std::byte> arena_;
};

// What the plans of random programs had.
struct Met {
  size_t in_place = 0, copied = 0;  // state that is replaced
  size_t sums = 0;                  // written over their addend
};

void count_met(const ir::Graph& graph, const MemoryPlan& plan, Met& met) {
  const ProgramPlan& program = plan.programs[0];
  met.copied += program.final_copies.size();
  for (const ir::Output& output : graph.outputs())
    met.in_place +=
        !output.donated.empty() && program.value_offset[output.value.index] == plan.find_state(output.donated)->offset;
  for (const ir::Node& node : graph.nodes()) {
    const int addend = ops::op_def(node.op).addend;
    if (addend < 0 || node.operands.size() <= static_cast<size_t>(addend)) continue;
    met.sums += program.value_offset[node.results[0].index] ==
                program.value_offset[node.operands[static_cast<size_t>(addend)].index];
  }
}

void expect_arena_holds(const ir::Graph& graph, const std::string& site, Met& met) {
  const MemoryPlan plan = plan_memory({&graph}, test_target());
  auto inputs = testing_support::random_inputs(graph, site);
  ArenaInterpreter chip(plan);
  for (const auto& [name, tensor] : inputs) chip.set_state(name, tensor);
  for (int step = 0; step < 2; ++step) {  // the second one starts from replaced state
    const auto wanted = ops::evaluate(graph, inputs);
    chip.run(graph, plan.programs[0]);
    ASSERT_FALSE(testing::Test::HasFailure());
    for (const ir::Output& output : graph.outputs())
      if (!output.donated.empty()) inputs[output.donated] = wanted.at(output.name);
    for (const auto& [name, tensor] : inputs) ASSERT_TRUE(is_close(chip.state(name), tensor, 0.0)) << name;
  }
  count_met(graph, plan, met);
}

TEST(MemoryPlanTest, RandomProgramsRunInTheArenaAsOutsideIt) {
  Met met;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_arena_holds(scheduled(testing_support::random_graph(seed, 5 + static_cast<int>(seed % 60))),
                       "seed" + std::to_string(seed), met);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(met.in_place, 100U);
  EXPECT_GT(met.copied, 10U);
}

// As for kernels with epilogues.
TEST(MemoryPlanTest, RandomProgramsWithAddendsRunInTheArenaAsOutsideIt) {
  Met met;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph source =
        testing_support::random_graph(seed, 5 + static_cast<int>(seed % 60), {.sums = true, .bf16 = true});
    const ir::Graph folded = schedule::fold_sums(schedule::narrow_results(source, test_target()), test_target());
    expect_arena_holds(scheduled(folded), "seed" + std::to_string(seed), met);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(met.in_place, 20U);
  EXPECT_GT(met.sums, 20U);
}

TEST(MemoryPlanTest, ItemsAndPaddingSumToTheArena) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ir::Graph graph = scheduled(testing_support::random_graph(seed, 40));
    const MemoryPlan plan = plan_memory({&graph}, test_target());
    int64_t sum = plan.padding_bytes;
    for (const Item& item : plan.items) sum += item.bytes;
    EXPECT_EQ(sum, plan.total_bytes);
    EXPECT_GE(plan.padding_bytes, 0);
    EXPECT_EQ(plan.total_bytes, plan.state_bytes + plan.programs[0].temporary_bytes);
    EXPECT_GE(plan.programs[0].temporary_bytes, plan.programs[0].lower_bound);
    EXPECT_EQ(plan.peak_program, graph.name());
    EXPECT_FALSE(to_text(plan).empty());
  }
}

TEST(MemoryPlanTest, MemoryOfOthersIsCountedByWhatIsAlive) {
  schedule::Target others = test_target();
  others.places_itself = true;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ir::Graph graph = scheduled(testing_support::random_graph(seed, 40));
    const MemoryPlan plan = plan_memory({&graph}, others), ours = plan_memory({&graph}, test_target());
    EXPECT_EQ(plan.total_bytes, ours.state_bytes + ours.programs[0].lower_bound);
    EXPECT_EQ(plan.total_bytes, ours.lower_bound);
  }
}

// Gaps may make another program the largest.
TEST(MemoryPlanTest, TheLowerBoundIsThatOfTheProgramWithMostAlive) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ir::Graph one = scheduled(testing_support::random_graph(seed, 10));
    const ir::Graph other = scheduled(testing_support::random_graph(seed + 50, 40));
    const MemoryPlan plan = plan_memory({&one, &other}, test_target());
    EXPECT_EQ(plan.lower_bound,
              plan.state_bytes + std::max(plan.programs[0].lower_bound, plan.programs[1].lower_bound));
    EXPECT_LE(plan.lower_bound, plan.total_bytes);
  }
}

TEST(MemoryPlanTest, StateAndValuesTakeWhatTheTargetSays) {
  schedule::Target tiled = test_target();
  tiled.alignment = 1;
  tiled.workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; };
  const auto times = [](int64_t factor) { return [=](const ir::TensorType& type) { return factor * type.bytes(); }; };
  const ir::Graph graph = scheduled(testing_support::random_graph(0, 40));
  const MemoryPlan plain = plan_memory({&graph}, tiled);
  tiled.state_storage = times(3);
  EXPECT_EQ(plan_memory({&graph}, tiled).state_bytes, 3 * plain.state_bytes);
  tiled.value_storage = times(3);
  EXPECT_EQ(plan_memory({&graph}, tiled).total_bytes, 3 * plain.total_bytes);
}

TEST(MemoryPlanTest, ProgramsShareStateByNameAndTemporariesByPlace) {
  const ir::Graph step = ir::parse(R"(graph "step" {
  %0 = input() {dtype="f32", name="w", shape=[100]} : f32[100] #weight
  %1 = input() {dtype="f32", name="grad", shape=[100]} : f32[100] #gradient
  %2 = transpose(%0) {permutation=[0]} : f32[100]
  %3 = cumsum(%2) {dim=0} : f32[100]
  output "loss" = %3
}
)");
  const ir::Graph update = ir::parse(R"(graph "update" {
  %0 = input() {dtype="f32", name="grad", shape=[100]} : f32[100] #gradient
  %1 = input() {dtype="f32", name="m", shape=[100]} : f32[100] #optimizer
  %2 = transpose(%0) {permutation=[0]} : f32[100]
  output "m" = %2 donates "m"
}
)");
  const MemoryPlan plan = plan_memory({&step, &update}, test_target());
  ASSERT_EQ(plan.state.size(), 3U);
  EXPECT_EQ(plan.state[0].name, "w");
  EXPECT_EQ(plan.state[1].name, "grad");
  EXPECT_EQ(plan.state[2].name, "m");
  EXPECT_EQ(plan.programs[0].value_offset[1], plan.programs[1].value_offset[0]);
  EXPECT_EQ(plan.state_bytes, 3 * 448);
  EXPECT_EQ(plan.programs[1].value_offset[2], plan.find_state("m")->offset) << "written where the old one was";
  EXPECT_TRUE(plan.programs[1].final_copies.empty());
  EXPECT_EQ(plan.programs[0].temporary_bytes, 448) << "cumsum takes over its operand";
  EXPECT_EQ(plan.total_bytes, plan.state_bytes + 448);
  EXPECT_EQ(plan.peak_program, "step");
}

TEST(MemoryPlanTest, StateThatMovesTogetherIsPlacedTogether) {
  const ir::Graph update = ir::parse(R"(graph "update" {
  %0 = input() {dtype="f32", name="a", shape=[100]} : f32[100] #gradient
  %1 = input() {dtype="f32", name="b", shape=[16]} : f32[16] #gradient
  %2 = input() {dtype="f32", name="c", shape=[16]} : f32[16] #gradient
  %3, %4 = all_reduce(%2, %0) {axes="x", kind="sum", parts=2} : f32[16], f32[100] #collective
  output "c" = %3 donates "c"
  output "a" = %4 donates "a"
}
)");
  const MemoryPlan plan = plan_memory({&update}, test_target());
  EXPECT_EQ(plan.find_state("c")->offset, 0);
  EXPECT_EQ(plan.find_state("a")->offset, 64);
  EXPECT_EQ(plan.find_state("b")->offset, 64 + 448);
}

TEST(MemoryPlanTest, ProgramsMustAgreeOnTheTypeOfState) {
  const ir::Graph a =
      ir::parse("graph \"a\" {\n  %0 = input() {dtype=\"f32\", name=\"w\", shape=[2]} : f32[2] #weight\n}\n");
  const ir::Graph b =
      ir::parse("graph \"b\" {\n  %0 = input() {dtype=\"f32\", name=\"w\", shape=[3]} : f32[3] #weight\n}\n");
  EXPECT_THROW(plan_memory({&a, &b}, test_target()), base::Error);
}

}  // namespace
}  // namespace megacpp::memory
