// SPDX-License-Identifier: Apache-2.0
// Runs random programs in one byte arena at the planned offsets, and one of the host's, and looks, at every node,
// whether each operand still holds what was put there.
#include "megacpp/program/memory/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/schedule/fold_accumulation.h"
#include "megacpp/program/schedule/fold_sums.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/narrow_results.h"
#include "megacpp/program/schedule/offload_activations.h"
#include "megacpp/program/schedule/order.h"
#include "megacpp/program/schedule/remove_dead.h"
#include "megacpp/program/schedule/rewrite.h"
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

// When a copy between device and host moves its bytes: no earlier than it starts, no later than it is done.
enum class CopyTime : uint8_t { at_start, at_done };

struct Place {
  ir::Tier tier;
  int64_t offset;
};

// One chip whose bytes are all in two arenas; every access is checked against the values kept aside.
class ArenaInterpreter {
 public:
  ArenaInterpreter(const MemoryPlan& plan, CopyTime copies)
      : plan_(plan),
        copies_(copies),
        arena_(static_cast<size_t>(plan.total_bytes), std::byte{0xFF}),
        host_(static_cast<size_t>(plan.of_host().bytes), std::byte{0xFF}) {}

  void set_state(const std::string& name, const Tensor& tensor) { write(tensor, place_of(*plan_.find_state(name))); }
  Tensor state(const std::string& name) const {
    const StateSlot* slot = plan_.find_state(name);
    return decode(slot->type, at(place_of(*slot), slot->type.bytes()));
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
      if (node.op == ops::kCopyDoneOp && copies_ == CopyTime::at_done) {
        const ir::Node& start = graph.producer(node.operands[0]);
        write(read(graph, program, start.operands[0]), place_of(program, node.operands[0]));
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
      if (workspace >= 0) std::fill_n(at({ir::Tier::device, workspace}, 100), 100, std::byte{0xEE});
      const std::vector<Tensor> results = ops::evaluate_op(node.op, operands, node.attrs);
      for (size_t r = 0; r < results.size(); ++r) {
        const Place place = place_of(program, node.results[r]);
        expected[node.results[r].index] = results[r];
        write(results[r], place);
        if (node.op == ops::kCopyStartOp && copies_ == CopyTime::at_done)  // nobody may read it yet
          std::fill_n(at(place, results[r].type.bytes()), results[r].type.bytes(), std::byte{0xDD});
      }
    }
    expect_outputs(graph, program, expected);
  }

 private:
  void expect_outputs(const ir::Graph& graph, const ProgramPlan& program, const std::vector<Tensor>& expected) {
    for (const Buffers::Copy& copy : program.final_copies)
      write(read(graph, program, copy.from), place_of(*plan_.find_state(copy.to_state)));
    for (const ir::Output& output : graph.outputs()) {
      const Tensor& wanted = expected[output.value.index];
      EXPECT_TRUE(is_close(read(graph, program, output.value), wanted, 0.0)) << output.name << "\n" << ir::print(graph);
      if (output.donated.empty()) continue;
      EXPECT_TRUE(is_close(state(output.donated), wanted, 0.0)) << output.donated << "\n" << ir::print(graph);
    }
  }

  static Place place_of(const StateSlot& slot) { return {slot.tier, slot.offset}; }
  static Place place_of(const ProgramPlan& program, ir::ValueId value) {
    return {program.value_tier[value.index], program.value_offset[value.index]};
  }

  std::byte* at(Place place, int64_t bytes) {
    std::vector<std::byte>& arena = place.tier == ir::Tier::host ? host_ : arena_;
    EXPECT_TRUE(place.offset >= 0 && place.offset + bytes <= static_cast<int64_t>(arena.size()))
        << place.offset << " + " << bytes;
    return arena.data() + place.offset;
  }
  const std::byte* at(Place place, int64_t bytes) const {
    return const_cast<ArenaInterpreter*>(this)->at(place, bytes);
  }
  void write(const Tensor& tensor, Place place) { encode(tensor, at(place, tensor.type.bytes())); }
  Tensor read(const ir::Graph& graph, const ProgramPlan& program, ir::ValueId value) const {
    return decode(graph.type(value), at(place_of(program, value), graph.type(value).bytes()));
  }

  const MemoryPlan& plan_;
  const CopyTime copies_;
  std::vector<std::byte> arena_, host_;
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

void expect_arena_holds(const ir::Graph& graph, const std::string& site, Met& met,
                        CopyTime copies = CopyTime::at_start) {
  const MemoryPlan plan = plan_memory({&graph}, test_target());
  auto inputs = testing_support::random_inputs(graph, site);
  ArenaInterpreter chip(plan, copies);
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

size_t copies_in(const ir::Graph& graph) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes(), [](const ir::Node& node) { return node.op == ops::kCopyStartOp; }));
}

// Whatever nobody touches for some nodes goes to the host and comes back.
TEST(MemoryPlanTest, RandomProgramsRunInBothArenasWheneverCopiesMove) {
  Met met;
  size_t copies = 0;
  int64_t on_host = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::string site = "seed" + std::to_string(seed);
    const ir::Graph before =
        testing_support::in_blocks(scheduled(testing_support::random_graph(seed, 60 + static_cast<int>(seed % 60))));
    const ir::Graph after = schedule::offload_activations(before, {.least_bytes = 1});
    const auto inputs = testing_support::random_inputs(before, site);
    const auto wanted = ops::evaluate(before, inputs), got = ops::evaluate(after, inputs);
    for (const auto& [name, tensor] : wanted) ASSERT_TRUE(is_close(got.at(name), tensor, 0.0)) << name;
    for (const CopyTime time : {CopyTime::at_start, CopyTime::at_done}) expect_arena_holds(after, site, met, time);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    copies += copies_in(after);
    on_host += plan_memory({&after}, test_target()).of_host().bytes;
  }
  EXPECT_GT(copies, 50U);
  EXPECT_GT(on_host, 0);
}

constexpr const char* kForwardPass = R"(graph "forward" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4] @block00.A #activation
  %2 = mul(%1, %1) : f32[4] @block01.A
  %3 = sin(%2) : f32[4] @block01.A #activation
  %4 = mul(%3, %3) : f32[4] @block02.A
  %5 = sin(%4) : f32[4] @block02.A #activation
  %6 = mul(%5, %5) : f32[4] @block03.A
  %7 = sin(%6) : f32[4] @block03.A #activation
  %8 = mul(%7, %7) : f32[4] @block04.A
  %9 = sin(%8) : f32[4] @block04.A
  output "carry.y" = %9
  output "kept.0" = %1
  output "kept.1" = %3
  output "kept.2" = %5
  output "kept.3" = %7
}
)";

constexpr const char* kBackwardPass = R"(graph "backward" {
  %0 = input() {dtype="f32", name="cotangent.y", shape=[4]} : f32[4] #activation
  %1 = input() {dtype="f32", name="kept.0", shape=[4]} : f32[4] #activation
  %2 = input() {dtype="f32", name="kept.1", shape=[4]} : f32[4] #activation
  %3 = input() {dtype="f32", name="kept.2", shape=[4]} : f32[4] #activation
  %4 = input() {dtype="f32", name="kept.3", shape=[4]} : f32[4] #activation
  %5 = mul(%0, %4) : f32[4] @block04.A
  %6 = sin(%5) : f32[4] @block04.A
  %7 = mul(%6, %3) : f32[4] @block03.A
  %8 = sin(%7) : f32[4] @block03.A
  %9 = mul(%8, %2) : f32[4] @block02.A
  %10 = sin(%9) : f32[4] @block02.A
  %11 = mul(%10, %1) : f32[4] @block01.A
  output "cotangent.x" = %11
}
)";

// As a stage of a pipeline has it: what the forward program hands over replaces state of that name, where it is.
ir::Graph with_state(const ir::Graph& forward) {
  schedule::Rewriter rewriter(forward);
  ops::Builder builder(rewriter.graph());
  for (const ir::Output& output : forward.outputs()) {
    if (!output.name.starts_with("kept.")) continue;
    const ir::ValueId storage = builder.input(output.name, forward.type(output.value), ir::Role::activation);
    if (const ir::Tier tier = ops::tier_of(forward, output.value); tier != ir::Tier::device)
      ops::place_input(rewriter.graph().node(rewriter.graph().value(storage).producer), tier);
  }
  for (const ir::Node& node : forward.nodes()) rewriter.copy(node);
  for (ir::Output output : forward.outputs()) {
    output.value = rewriter.map(output.value);
    if (output.name.starts_with("kept.")) output.donated = output.name;
    rewriter.graph().add_output(std::move(output));
  }
  return std::move(rewriter.graph());
}

// A program leaves state in the host's memory, and another one has it from there, micro-batch after micro-batch.
TEST(MemoryPlanTest, PassesHandStateOverInBothArenasWheneverCopiesMove) {
  const ir::Graph whole = ir::parse(kForwardPass);
  const schedule::HandedOver names = schedule::handed_over(whole, "kept.", {.least_bytes = 1});
  EXPECT_EQ(names.offloaded, (std::set<std::string>{"kept.0", "kept.1"})) << "the other two are wanted at once";
  const ir::Graph forward = with_state(schedule::store_outputs(whole, names));
  const ir::Graph backward = schedule::fetch_inputs(ir::parse(kBackwardPass), names);
  EXPECT_EQ(copies_in(forward), 2U) << ir::print(forward);
  EXPECT_EQ(copies_in(backward), 2U) << ir::print(backward);
  const MemoryPlan plan = plan_memory({&forward, &backward}, test_target());
  EXPECT_EQ(plan.of_host().bytes, 2 * 64) << "state, and nothing beside it";
  for (const CopyTime time : {CopyTime::at_start, CopyTime::at_done}) {
    ArenaInterpreter chip(plan, time);
    for (const char* micro_batch : {"first", "second"}) {
      const auto inputs = testing_support::random_inputs(whole, micro_batch);
      const auto handed_over = ops::evaluate(whole, inputs);
      chip.set_state("x", inputs.at("x"));
      chip.set_state("cotangent.y", handed_over.at("carry.y"));
      chip.run(forward, plan.programs[0]);
      for (const char* kept : {"kept.0", "kept.1", "kept.2", "kept.3"})
        EXPECT_TRUE(is_close(chip.state(kept), handed_over.at(kept), 0.0)) << kept << " of the " << micro_batch;
      chip.run(backward, plan.programs[1]);
    }
  }
}

// Two tensors go to the host and come back.
MemoryPlan plan_of_two_on_the_host(const std::string& second_before_first_is_back,
                                   const std::string& second_afterwards) {
  const ir::Graph graph = ir::parse(R"(graph "g" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4]
  %2 = copy_start(%1) {to="host"} : f32[4]
  %3 = copy_done(%2) : f32[4]
)" + second_before_first_is_back + R"(  %10 = copy_start(%3) {to="device"} : f32[4]
  %11 = copy_done(%10) : f32[4]
  %12 = exp(%11) : f32[4]
)" + second_afterwards + R"(  %30 = copy_start(%22) {to="device"} : f32[4]
  %31 = copy_done(%30) : f32[4]
  %32 = add(%31, %12) : f32[4]
  output "y" = %32
}
)");
  return plan_memory({&graph}, test_target());
}

TEST(MemoryPlanTest, TensorsOnTheHostHaveBytesOfTheirOwnUntilTheyAreBack) {
  const std::string second = R"(  %20 = sin(%0) : f32[4]
  %21 = copy_start(%20) {to="host"} : f32[4]
  %22 = copy_done(%21) : f32[4]
)";
  const MemoryPlan together = plan_of_two_on_the_host(second, ""), apart = plan_of_two_on_the_host("", second);
  EXPECT_EQ(together.of_host().bytes, 128);
  EXPECT_EQ(apart.of_host().bytes, 64) << "the first is back when the second leaves";
  for (const MemoryPlan* plan : {&together, &apart}) {
    EXPECT_EQ(plan->programs[0].away_bytes.at(ir::Tier::host), plan->of_host().bytes) << "no state is there";
    EXPECT_EQ(plan->of_host().activation_bytes, plan->of_host().bytes);
    EXPECT_EQ(std::ranges::count(plan->programs[0].value_tier, ir::Tier::host), 4) << "what two copies leave";
    int64_t items = plan->padding_bytes;
    for (const Item& item : plan->items) items += item.bytes;
    EXPECT_EQ(items, plan->total_bytes) << "nothing of the host's is in the arena";
  }
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
