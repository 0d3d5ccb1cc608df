// SPDX-License-Identifier: Apache-2.0
// What is kept in the host's memory (layout.offload), without a GPU: whole steps on the stand-in driver, of state, of
// activations and of both.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/ops/tier_copy.h"
#include "tests/cuda/stand_in_gpu.h"
#include "tests/cuda/stand_in_run.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

using stand_in_cuda::Kind;
using stand_in_cuda::Operation;

const std::vector<std::string> kOffload = {"layout.offload=optimizer"};

// As many tokens as make activations worth a copy.
const std::vector<std::string> kOffloadActivations = {"train.batch=8", "train.sequence=128",
                                                      "layout.offload=activations"};

size_t copies_in(const ir::Graph& graph) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes(), [](const ir::Node& node) { return node.op == ops::kCopyStartOp; }));
}

size_t copies_in_update(const StandInRun& run) {
  return copies_in(run.programs().find(compile::ProgramKind::update).graph);
}

size_t moved_by_host(const std::vector<Operation>& operations) {
  return static_cast<size_t>(std::ranges::count_if(
      operations, [](const Operation& each) { return each.kind == Kind::upload || each.kind == Kind::download; }));
}

// Steps that are alike, in planned buffers, as one graph. How many copies a step has between the two memories.
size_t copies_in_steps_alike(StandInRun& run) {
  run.executable().run_step(runtime::StepMode::plain);
  std::vector<Operation> first;
  std::swap(first, run.machine().operations);
  expect_in_planned_buffers(run, first);
  const int waits = run.machine().waits;
  for (int step = 0; step < 3; ++step) {
    run.machine().operations.clear();
    run.executable().run_step(runtime::StepMode::plain);
    EXPECT_EQ(texts_of(run.machine().operations), texts_of(first));
  }
  EXPECT_EQ(run.machine().graphs, 1);
  EXPECT_EQ(run.machine().waits, waits);
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
  return moved_by_host(first);
}

void expect_memories_as_planned(const StandInRun& run) {
  const memory::MemoryPlan& plan = run.programs().memory;
  const runtime::ChipMemory memory = run.executable().memory(0);
  EXPECT_EQ(memory.planned_peak_bytes, plan.total_bytes);
  EXPECT_EQ(memory.in(ir::Tier::host).planned_bytes, plan.of_host().bytes);
  EXPECT_EQ(memory.in(ir::Tier::host).measured_bytes, plan.of_host().bytes);
}

void expect_one_graph(StandInRun& run, const std::string& layout) {
  for (int step = 0; step < 3; ++step) run.executable().run_step(runtime::StepMode::plain);
  EXPECT_EQ(run.machine().graphs, 1) << layout;
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>()) << layout;
}

void expect_checked_and_profiled(const std::vector<std::string>& settings) {
  StandInRun checked(settings), profiled(settings, true);
  for (int step = 0; step < 3; ++step) {
    checked.step(runtime::StepMode::check_values);
    profiled.step();
  }
  EXPECT_GT(profiled.executable().step_parts().value().links, 0);
  EXPECT_EQ(checked.machine().breaches, std::vector<std::string>());
  EXPECT_EQ(profiled.machine().breaches, std::vector<std::string>());
}

TEST(CudaHostOffloadTest, OffloadedStateStreamsThroughPlannedBuffersInOneGraph) {
  StandInRun run(kOffload);
  const size_t copies = copies_in_update(run);
  EXPECT_GT(copies, 20U);
  EXPECT_EQ(copies_in_steps_alike(run), copies) << "half of them to the device, half of them back";
}

TEST(CudaHostOffloadTest, BothMemoriesAreAsPlanned) {
  const std::vector<std::string> tokens = {"train.batch=8", "train.sequence=256"};  // more than the ring takes
  const StandInRun plain(tokens);
  StandInRun run({tokens[0], tokens[1], kOffload[0]});
  run.step();
  const memory::MemoryPlan &before = plain.programs().memory, &after = run.programs().memory;
  expect_memories_as_planned(run);
  EXPECT_EQ(before.of_host().bytes, 0);
  EXPECT_EQ(after.state_bytes + after.of_host().bytes, before.state_bytes) << "state is in one of them";
  EXPECT_LT(after.total_bytes, before.total_bytes);
}

// Also between virtual chips, whose collectives have streams of their own, and in a pipeline.
TEST(CudaHostOffloadTest, OffloadedStateOfManyChipsIsOneGraph) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"layout.data_parallel=2", "layout.zero=1", "layout.offload=optimizer"},
        std::vector<std::string>{"layout.data_parallel=2", "layout.zero=3", "layout.offload=optimizer"},
        std::vector<std::string>{"layout.pipeline_parallel=2", "layout.offload=optimizer"}}) {
    StandInRun run(layout);
    expect_one_graph(run, layout.front());
  }
}

TEST(CudaHostOffloadTest, OffloadedStateIsZeroAtFirstAndIsWrittenAndReadWhereItIs) {
  const StandInRun run(kOffload);
  size_t offloaded = 0;
  for (const compile::StateTensor& tensor : run.executable().state(0)) {
    if (tensor.role != ir::Role::optimizer) continue;
    ++offloaded;
    const auto bytes = static_cast<size_t>(run.executable().state_bytes(tensor.name, 0).value());
    std::vector<std::byte> written(bytes, std::byte{0x3D}), read(bytes, std::byte{0xFF});
    run.executable().read_state(tensor.name, 0, read);
    EXPECT_EQ(read, std::vector<std::byte>(bytes)) << tensor.name;
    run.executable().write_state(tensor.name, 0, written);
    run.executable().read_state(tensor.name, 0, read);
    EXPECT_EQ(read, written) << tensor.name;
  }
  EXPECT_EQ(copies_in_update(run), 2 * offloaded);
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

TEST(CudaHostOffloadTest, CheckedAndProfiledStepsOfOffloadedStateRunNodeByNode) {
  expect_checked_and_profiled(kOffload);
}

TEST(CudaHostOffloadTest, OffloadedActivationsStreamThroughPlannedBuffersInOneGraph) {
  StandInRun run(kOffloadActivations);
  const size_t copies = copies_in(run.programs().find(compile::ProgramKind::micro_step).graph);
  EXPECT_GT(copies, 20U);
  EXPECT_EQ(copies_in_update(run), 0U);
  EXPECT_EQ(copies_in_steps_alike(run), 2 * copies)
      << "in both micro-steps, half of them to the device, half of them back";
}

// Micro-steps have the same bytes of the host one after the other.
TEST(CudaHostOffloadTest, BothMemoriesAreAsPlannedWithOffloadedActivations) {
  const std::vector<std::string> tokens(kOffloadActivations.begin(), kOffloadActivations.end() - 1);
  const StandInRun plain(tokens);
  StandInRun run(kOffloadActivations);
  run.step();
  const memory::MemoryPlan &before = plain.programs().memory, &after = run.programs().memory;
  expect_memories_as_planned(run);
  EXPECT_EQ(after.state_bytes, before.state_bytes) << "state stays";
  EXPECT_LT(after.total_bytes, before.total_bytes);
  int64_t stored = 0;
  for (const ir::Node& node : run.programs().find(compile::ProgramKind::micro_step).graph.nodes())
    if (ops::tier_of(node) == ir::Tier::host)
      stored += run.programs().find(compile::ProgramKind::micro_step).graph.type(node.results[0]).bytes();
  EXPECT_GT(stored, 0);
  EXPECT_GE(after.of_host().bytes, stored) << "all of them are there between the passes";
  EXPECT_LT(after.of_host().bytes, 2 * stored);
}

// Between chips whose collectives have streams of their own; in a pipeline as state of the micro-batches in flight,
// with either form of backward passes, with several parts of the model on a chip, and of chosen blocks; and with state
// beside them.
TEST(CudaHostOffloadTest, OffloadedActivationsOfManyChipsAreOneGraph) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"layout.data_parallel=2", "layout.zero=3"},
        std::vector<std::string>{"layout.tensor_parallel=2"}, std::vector<std::string>{"layout.pipeline_parallel=2"},
        std::vector<std::string>{"layout.pipeline_parallel=2", "layout.schedule=interleaved",
                                 "layout.virtual_stages=2"},
        std::vector<std::string>{"layout.pipeline_parallel=2", "layout.offload_blocks=[E]"},
        std::vector<std::string>{"layout.pipeline_parallel=2", "layout.schedule=zero_bubble", "layout.offload=all"}}) {
    SCOPED_TRACE(layout.back());
    std::vector<std::string> settings = kOffloadActivations;
    settings.insert(settings.end(), layout.begin(), layout.end());
    StandInRun run(settings);
    size_t copies = 0;
    for (const compile::Program& program : run.programs().programs)
      if (program.kind != compile::ProgramKind::update) copies += copies_in(program.graph);
    EXPECT_GT(copies, 20U) << layout.front();
    expect_one_graph(run, layout.front());
  }
}

TEST(CudaHostOffloadTest, CheckedAndProfiledStepsOfOffloadedActivationsRunNodeByNode) {
  expect_checked_and_profiled(kOffloadActivations);
}

TEST(CudaHostOffloadTest, AHostThatRefusesPinnedMemoryIsE2005) {
  const StandInGpu gpu;
  gpu.machine().answers["cuMemHostAlloc"] = 2;
  const recipe::Recipe recipe = hybrid(kOffload);
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  const base::Problem problem = problem_of(base::Code::E2005, [&] {
    runtime::cuda::load(compiled, runtime::load_options(recipe::run_request(recipe), 1), gpu.parts());
  });
  EXPECT_NE(problem.next.find("layout.offload: none"), std::string::npos) << problem.next;
  EXPECT_EQ(gpu.machine().allocated.size(), 0U);
}

}  // namespace
}  // namespace megacpp::testing_support
