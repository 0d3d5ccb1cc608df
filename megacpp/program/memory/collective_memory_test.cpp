// SPDX-License-Identifier: Apache-2.0
// Runs random programs of two chips in an arena each, at the planned offsets, with collectives in flight. A transport
// may move data at any time between start and done: once all of it is moved at the start, once only when it is done.
// Either way nothing a node reads, and nothing the transport does, may have been overwritten. Copies to the host and
// back are alike, with an arena of the host's for each chip.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/core/ir/text.h"
#include "megacpp/program/memory/memory_plan.h"
#include "megacpp/program/ops/collective_start.h"
#include "megacpp/program/ops/tier_copy.h"
#include "megacpp/program/schedule/bucket_collectives.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/offload_activations.h"
#include "megacpp/program/schedule/order.h"
#include "megacpp/program/schedule/overlap_collectives.h"
#include "megacpp/program/schedule/remove_dead.h"
#include "tests/support/collective_reference.h"
#include "tests/support/random_collectives.h"
#include "tests/support/spmd_evaluator.h"
#include "tests/support/tensors.h"

namespace megacpp::memory {
namespace {

using ops::Tensor;
using Tensors = std::vector<Tensor>;

constexpr size_t kChips = 2;

enum class Moves : uint8_t { at_the_start, when_done };

class ChipArenas {
 public:
  ChipArenas(const ir::Graph& graph, const MemoryPlan& plan, Moves moves)
      : graph_(graph), plan_(plan), program_(plan.programs[0]), moves_(moves) {
    for (size_t chip = 0; chip < kChips; ++chip) {
      arenas_.emplace_back(static_cast<size_t>(plan.total_bytes), std::byte{0xFF});
      hosts_.emplace_back(static_cast<size_t>(plan.of_host().bytes), std::byte{0xFF});
      expected_.emplace_back(graph.values().size());
    }
  }

  void set_state(size_t chip, const std::string& name, const Tensor& tensor) {
    testing_support::encode(tensor, arenas_[chip].data() + plan_.find_state(name)->offset);
  }

  void run() {
    for (const ir::Node& node : graph_.nodes()) {
      if (node.op == ir::kInputOp)
        expect(node.results, {{read(0, node.results[0])}, {read(1, node.results[0])}});
      else if (node.op == ops::kStartOp || node.op == ops::kCopyStartOp)
        start(node);
      else if (node.op == ops::kDoneOp || node.op == ops::kCopyDoneOp)
        finish(node);
      else
        write(node.results, results_of(node, operands_of(node)));
      if (testing::Test::HasFailure()) return;
    }
    for (const ir::Output& output : graph_.outputs()) operands_of({.operands = {output.value}});
  }

 private:
  const std::byte* at(size_t chip, ir::ValueId value) const {
    const bool is_on_host = program_.value_tier[value.index] == ir::Tier::host;
    return (is_on_host ? hosts_ : arenas_)[chip].data() + program_.value_offset[value.index];
  }
  std::byte* at(size_t chip, ir::ValueId value) { return const_cast<std::byte*>(std::as_const(*this).at(chip, value)); }

  Tensor read(size_t chip, ir::ValueId value) const {
    return testing_support::decode(graph_.type(value), at(chip, value));
  }

  // By chip, as they are in the arenas.
  std::vector<Tensors> operands_of(const ir::Node& node) const {
    std::vector<Tensors> operands(kChips);
    for (size_t chip = 0; chip < kChips; ++chip) {
      for (const ir::ValueId operand : node.operands) {
        operands[chip].push_back(read(chip, operand));
        EXPECT_TRUE(testing_support::is_close(operands[chip].back(), expected_[chip][operand.index], 0.0))
            << "%" << operand.index << " was overwritten before " << node.op << "\n"
            << ir::print(graph_);
      }
    }
    return operands;
  }

  static std::vector<Tensors> results_of(const ir::Node& node, const std::vector<Tensors>& operands) {
    std::vector<Tensors> results;
    for (size_t chip = 0; chip < kChips; ++chip) {
      results.push_back(ops::op_def(node.op).is_collective
                            ? testing_support::evaluate_collective(node.op, operands, chip, node.attrs)
                            : ops::evaluate_op(node.op, operands[chip], node.attrs));
      for (Tensor& result : results.back())
        for (double& element : result.data) element = ir::rounded(result.type.dtype, element);
    }
    return results;
  }

  void expect(const std::vector<ir::ValueId>& values, const std::vector<Tensors>& tensors) {
    for (size_t chip = 0; chip < kChips; ++chip)
      for (size_t r = 0; r < values.size(); ++r) expected_[chip][values[r].index] = tensors[chip][r];
  }

  void write(const std::vector<ir::ValueId>& values, const std::vector<Tensors>& tensors) {
    expect(values, tensors);
    for (size_t chip = 0; chip < kChips; ++chip)
      for (size_t r = 0; r < values.size(); ++r) testing_support::encode(tensors[chip][r], at(chip, values[r]));
  }

  void start(const ir::Node& node) {
    const std::vector<Tensors> operands = operands_of(node);
    if (moves_ == Moves::at_the_start) write(node.results, results_of(node, operands));
  }

  void finish(const ir::Node& node) {
    const ir::Node& started = graph_.producer(node.operands[0]);
    if (moves_ == Moves::when_done) write(started.results, results_of(started, operands_of(started)));
    expect(node.results, operands_of(node));
  }

  const ir::Graph& graph_;
  const MemoryPlan& plan_;
  const ProgramPlan& program_;
  const Moves moves_;
  std::vector<std::vector<std::byte>> arenas_, hosts_;  // by chip
  std::vector<Tensors> expected_;                       // by chip, by value
};

ir::Graph bucketed_and_overlapped(const ir::Graph& graph) {
  using Unit = schedule::BucketPolicy::Unit;
  const ir::Graph bucketed = schedule::bucket_collectives(schedule::remove_dead(graph), {.unit = Unit::block});
  return schedule::overlap_collectives(
      schedule::order_for_low_peak(schedule::lower_elementwise(schedule::fuse(bucketed))), {.prefetch = 1});
}

MemoryPlan plan_of_chip(const ir::Graph& graph) {
  const schedule::Target target{
      .name = "test", .runs = {}, .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }};
  return plan_memory({&graph}, target);
}

void expect_arenas_hold(const ir::Graph& graph, const MemoryPlan& plan) {
  for (const Moves moves : {Moves::at_the_start, Moves::when_done}) {
    ChipArenas arenas(graph, plan, moves);
    for (size_t chip = 0; chip < kChips; ++chip)
      for (const auto& [name, tensor] : testing_support::random_inputs(graph, "chip" + std::to_string(chip)))
        arenas.set_state(chip, name, tensor);
    arenas.run();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(CollectiveMemoryTest, NothingIsOverwrittenWhileDataMoves) {
  size_t split = 0, in_place = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph graph =
        bucketed_and_overlapped(testing_support::random_chip_program(seed, 5 + static_cast<int>(seed % 40)));
    const MemoryPlan plan = plan_of_chip(graph);
    expect_arenas_hold(graph, plan);
    if (HasFatalFailure()) return;
    for (const ir::Node& node : graph.nodes()) {
      if (node.op != ops::kStartOp) continue;
      ++split;
      const auto& offsets = plan.programs[0].value_offset;
      in_place += offsets[node.operands[0].index] == offsets[node.results[0].index] ? 1 : 0;
    }
  }
  EXPECT_GT(split, 200U);
  EXPECT_GT(in_place, 20U);
}

// Copies to the host of what collectives have brought.
size_t stored_results(const ir::Graph& graph) {
  return static_cast<size_t>(std::ranges::count_if(graph.nodes(), [&graph](const ir::Node& node) {
    return node.op == ops::kCopyStartOp && graph.producer(node.operands[0]).op == ops::kDoneOp;
  }));
}

TEST(CollectiveMemoryTest, NothingIsOverwrittenWhileActivationsMoveToo) {
  size_t stored = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph before =
        bucketed_and_overlapped(testing_support::random_chip_program(seed, 40 + static_cast<int>(seed % 40)));
    const ir::Graph graph = schedule::offload_activations(testing_support::in_blocks(before), {.least_bytes = 1});
    expect_arenas_hold(graph, plan_of_chip(graph));
    if (HasFatalFailure()) return;
    stored += stored_results(graph);
  }
  EXPECT_GT(stored, 0U);
}

// The two tensors that a collective reads are in a row, and so are those that it brings: all four go to the host.
TEST(CollectiveMemoryTest, RowsOfCollectivesMayLeaveForTheHost) {
  const ir::Graph before = ir::parse(R"(graph "micro_step" {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4] #batch
  %1 = exp(%0) : f32[4] @block00.A #activation
  %2 = sin(%0) : f32[4] @block00.A #activation
  %3, %4 = collective_start(%1, %2) {axes="x", dims=[0,0], op="all_gather", parts=2} : f32[8], f32[8] @block00.A #activation
  %5 = mul(%1, %2) : f32[4] @block01.A #activation
  %6 = sin(%5) : f32[4] @block02.A #activation
  %7, %8 = collective_done(%3, %4) {axes="x", op="all_gather", parts=2} : f32[8], f32[8] @block02.A #activation
  %9 = mul(%7, %8) : f32[8] @block03.A #activation
  %10 = exp(%6) : f32[4] @block03.A #activation
  %11 = exp(%9) : f32[8] @block04.A #activation
  %12 = sin(%10) : f32[4] @block04.A #activation
  %13 = sin(%11) : f32[8] @block05.A #activation
  %14 = mul(%13, %11) : f32[8] @block05.A
  %15 = mul(%12, %10) : f32[4] @block04.A
  %16 = mul(%14, %9) : f32[8] @block04.A
  %17 = mul(%15, %6) : f32[4] @block03.A
  %18 = mul(%16, %7) : f32[8] @block03.A
  %19 = mul(%18, %8) : f32[8] @block02.A
  %20 = mul(%17, %5) : f32[4] @block02.A
  %21 = mul(%20, %1) : f32[4] @block01.A
  %22 = mul(%21, %2) : f32[4] @block00.A
  output "grad.x" = %22
  output "grad.w" = %19
}
)");
  const ir::Graph graph = schedule::offload_activations(before, {.least_bytes = 1});
  EXPECT_EQ(stored_results(graph), 2U) << ir::print(graph);
  const auto copies =
      std::ranges::count_if(graph.nodes(), [](const ir::Node& node) { return ops::tier_of(node) == ir::Tier::host; });
  EXPECT_EQ(copies, 6) << ir::print(graph);
  expect_arenas_hold(graph, plan_of_chip(graph));
}

}  // namespace
}  // namespace megacpp::memory
