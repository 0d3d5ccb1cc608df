// SPDX-License-Identifier: Apache-2.0
// The whole host path without a GPU: a hybrid model is compiled, loaded and stepped on a driver that stands in for
// NVIDIA's, which records every launch with the device memory it was handed and objects to what no run may do.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megacpp/blocks/parameter.h"
#include "megacpp/compile/compile.h"
#include "megacpp/ops/host_copy.h"
#include "megacpp/plan/plan.h"
#include "megacpp/recipe/parse.h"
#include "megacpp/runtime/backend.h"
#include "megacpp/runtime/cuda/upload_ring.h"
#include "megacpp/train/run_state.h"
#include "tests/cuda/planned_buffers.h"
#include "tests/cuda/stand_in_gpu.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

using stand_in_cuda::Kind;
using stand_in_cuda::Operation;

recipe::Recipe hybrid(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = {"train.batch=2", "train.sequence=64", "train.micro_steps=2"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", all);
}

/// A recipe compiled for GPUs and loaded on a machine of its own, weights drawn. From then on nothing may be allocated.
class StandInRun {
 public:
  explicit StandInRun(const std::vector<std::string>& overrides = {}, bool profile = false)
      : recipe_(hybrid(overrides)), compiled_(compile_for_gpus(recipe_)) {
    runtime::LoadOptions options = runtime::load_options(recipe_, compiled_.mesh.chips());
    options.profile = profile;
    options.wait_limit = std::chrono::seconds(20);
    executable_ = runtime::cuda::load(compiled_, options, gpu_.parts());
    train::RunState(compiled_, *executable_).initialise_weights(1);
    machine().is_loaded = true;
    machine().operations.clear();
  }

  static compile::Compiled compile_for_gpus(const recipe::Recipe& recipe) {
    const plan::Plan plan = plan::make_plan(recipe);
    return compile::compile_training(recipe, plan, runtime::cuda::cuda_target(plan.parallel.mesh.chips()));
  }

  void step(runtime::StepMode mode = runtime::StepMode::plain) {
    const float rate = 0.5F;
    executable_->stage_batch("lr", 0, 0, std::as_bytes(std::span(&rate, 1)));
    executable_->run_step(mode);
  }

  stand_in_cuda::Machine& machine() const { return gpu_.machine(); }
  const compile::Compiled& compiled() const { return compiled_; }
  const std::map<std::string, int>& compiles() const { return gpu_.compiles(); }
  const compile::StagePrograms& programs() const { return compiled_.programs_of(0); }
  runtime::Executable& executable() const { return *executable_; }

  /// Where the arena begins: the only memory of exactly its size.
  uint64_t arena() const {
    for (const auto& [address, bytes] : machine().allocated)
      if (static_cast<int64_t>(bytes) == programs().memory.total_bytes) return address;
    ADD_FAILURE() << "no memory of the planned " << programs().memory.total_bytes << " bytes";
    return 0;
  }

  /// What ran since the last call, uploads left out: they are the host's.
  std::vector<Operation> take_operations() const {
    std::vector<Operation> taken;
    std::swap(taken, machine().operations);
    std::erase_if(taken, [](const Operation& each) { return each.kind == Kind::upload; });
    return taken;
  }

 private:
  StandInGpu gpu_;
  recipe::Recipe recipe_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> executable_;
};

void expect_in_planned_buffers(const StandInRun& run, const std::vector<Operation>& operations) {
  expect_planned_buffers_alone(run.programs(), run.arena(), operations);
}

std::vector<std::string> texts_of(const std::vector<Operation>& operations) {
  std::vector<std::string> texts;
  for (const Operation& operation : operations) {
    std::string text = std::to_string(static_cast<int>(operation.kind)) + " " + operation.name;
    for (const stand_in_cuda::Range& range : operation.ranges)
      text += " " + std::to_string(range.address) + "+" + std::to_string(range.bytes);
    texts.push_back(std::move(text));
  }
  return texts;
}

TEST(CudaHostPathTest, StepsStayInTheirPlannedBuffersAndTheGraphIsTheStepAsItCame) {
  StandInRun run;
  run.step();
  const std::vector<Operation> first = run.take_operations();
  EXPECT_EQ(run.machine().graphs, 0) << "the first step runs as it comes";
  EXPECT_GT(first.size(), run.programs().step.size());
  expect_in_planned_buffers(run, first);
  run.step();
  const std::vector<Operation> second = run.take_operations();
  EXPECT_EQ(run.machine().graphs, 1);
  EXPECT_TRUE(std::ranges::all_of(second, &Operation::replayed));
  EXPECT_EQ(texts_of(second), texts_of(first));
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

size_t launches_of(const std::vector<Operation>& operations, std::string_view name) {
  return static_cast<size_t>(std::ranges::count(operations, name, &Operation::name));
}

// Sums of squares have an order of their own for small tensors, updates are with decay or without.
TEST(CudaHostPathTest, ClustersOfTheUpdateAreJoinedInStepsThatNothingLooksInto) {
  StandInRun run, profiled({}, true);
  run.step();
  const std::vector<Operation> joined = run.take_operations();
  run.step(runtime::StepMode::check_values);
  const std::vector<Operation> checked = run.take_operations();
  profiled.step();
  const std::vector<Operation> timed = profiled.take_operations();
  EXPECT_GT(launches_of(joined, "fused_batch"), 0U);
  EXPECT_GT(launches_of(checked, "fused"), launches_of(joined, "fused") + run.compiled().parameters.size())
      << "sums of squares and updates";
  EXPECT_EQ(launches_of(checked, "fused_batch") + launches_of(timed, "fused_batch"), 0U);
  expect_in_planned_buffers(profiled, timed);
  size_t entries = launches_of(joined, "fused");
  for (const Operation& operation : joined)
    if (operation.name == "fused_batch") entries += operation.entries.size();
  EXPECT_EQ(entries, launches_of(checked, "fused")) << "every node once";
}

// Five blocks of experts, two micro-steps. What is recomputed as a whole makes h where it makes gate and up again.
TEST(CudaHostPathTest, ExpertsInBf16HaveSwigluInTheirProducts) {
  struct Row {
    std::string recompute;
    size_t forward, grads, grads_with_h;
  };
  for (const Row& row : {Row{"none", 10, 10, 0}, Row{"selective", 10, 0, 10}, Row{"full", 20, 10, 0}}) {
    SCOPED_TRACE(row.recompute);
    StandInRun run({"train.precision=bf16", "train.recompute=" + row.recompute});
    run.step();
    const std::vector<Operation> operations = run.take_operations();
    EXPECT_EQ(launches_of(operations, "ragged_swiglu"), row.forward);
    EXPECT_EQ(launches_of(operations, "ragged_swiglu_grad"), row.grads);
    EXPECT_EQ(launches_of(operations, "ragged_swiglu_grad_h"), row.grads_with_h);
    expect_in_planned_buffers(run, operations);
    EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
  }
}

// Two micro-steps of one loss and five routers, whose logits are products of f32.
TEST(CudaHostPathTest, TheLossOfABf16RunReadsLogitsInBf16AndItsGradientTakesTheirPlace) {
  StandInRun run({"train.precision=bf16"});
  run.step();
  const std::vector<Operation> operations = run.take_operations();
  EXPECT_EQ(launches_of(operations, "cross_entropy_bf16_vector"), 2U);
  EXPECT_EQ(launches_of(operations, "cross_entropy_grad_bf16_bf16_vector"), 2U);
  EXPECT_EQ(launches_of(operations, "cross_entropy_f32_vector"), 10U);
  EXPECT_EQ(launches_of(operations, "cross_entropy_grad_f32_f32_vector"), 10U);
  for (const Operation& operation : operations) {
    if (operation.name != "cross_entropy_grad_bf16_bf16_vector") continue;
    ASSERT_FALSE(operation.ranges.empty());
    EXPECT_EQ(operation.ranges.back().address, operation.ranges.front().address) << "gradient and logits";
  }
  expect_in_planned_buffers(run, operations);
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

TEST(CudaHostPathTest, AStepIsOneLaunchWithoutAWait) {
  StandInRun run;
  for (int step = 0; step < 2; ++step) run.step();
  const int waits = run.machine().waits;
  for (int step = 0; step < 20; ++step) run.step();
  EXPECT_EQ(run.machine().graphs, 1);
  EXPECT_EQ(run.machine().graph_launches, 21);
  EXPECT_EQ(run.machine().waits, waits);
  EXPECT_FALSE(run.executable().waits_for_steps());
  EXPECT_EQ(run.executable().step_parts(), std::nullopt) << "no part of a step is timed";
  run.executable().fetch("loss", 0);
  EXPECT_GT(run.machine().waits, waits);
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

TEST(CudaHostPathTest, CheckedValuesRunNodeByNode) {
  StandInRun run;
  for (int step = 0; step < 3; ++step) run.step(runtime::StepMode::check_values);
  EXPECT_EQ(run.machine().graphs, 0);
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

TEST(CudaHostPathTest, AProfileTimesEveryOpOnTheDevice) {
  StandInRun run({}, true);
  for (int step = 0; step < 3; ++step) run.step();
  EXPECT_EQ(run.machine().graphs, 0);
  EXPECT_TRUE(run.executable().waits_for_steps());
  const std::optional<runtime::StepParts> parts = run.executable().step_parts();
  ASSERT_TRUE(parts.has_value());
  EXPECT_GT(parts->arithmetic, 0);
  EXPECT_GT(parts->memory, 0);
  double in_ops = 0;
  for (const runtime::OpSeconds& op : run.executable().op_seconds()) in_ops += op.seconds;
  EXPECT_GT(in_ops, 0);
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

TEST(CudaHostPathTest, TheArenaIsThePlanAndTheRestIsSmall) {
  const StandInRun run;
  const runtime::ChipMemory memory = run.executable().memory(0);
  EXPECT_EQ(memory.used_bytes, run.programs().memory.total_bytes);
  EXPECT_EQ(memory.planned_peak_bytes, run.programs().memory.total_bytes);
  size_t beside = 0;
  for (const auto& [address, bytes] : run.machine().allocated)
    if (address != run.arena()) beside += bytes;
  EXPECT_LT(beside, size_t{1} << 20) << "staged batches and fetched outputs";
  const std::vector<std::string> notes = run.executable().load_notes();
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("planned on NVIDIA H200"), std::string::npos) << notes[0];
}

TEST(CudaHostPathTest, LoadingSaysWhereItsTimeWent) {
  const StandInRun run;
  std::vector<std::string> names;
  for (const base::TimedPart& part : run.executable().load_parts()) {
    names.push_back(part.name);
    EXPECT_GE(part.seconds, 0) << part.name;
    EXPECT_EQ(part.name == "kernels", !part.note.empty()) << part.note;  // products of this size are not searched
  }
  EXPECT_EQ(names, (std::vector<std::string>{"context", "memory", "kernels", "products", "nodes"}));
}

TEST(CudaHostPathTest, EveryClusterIsCompiledOnce) {
  const StandInRun run;
  EXPECT_FALSE(run.compiles().empty());
  for (const auto& [source, count] : run.compiles()) EXPECT_EQ(count, 1) << source;
}

TEST(CudaHostPathTest, StateIsWrittenAndReadByTheTable) {
  const StandInRun run;
  for (const compile::StateTensor& tensor : run.executable().state(0)) {
    if (!tensor.kept) continue;
    const auto bytes = static_cast<size_t>(run.executable().state_bytes(tensor.name, 0).value());
    std::vector<std::byte> written(bytes, std::byte{0x3D}), read(bytes);
    run.executable().write_state(tensor.name, 0, written);
    run.executable().read_state(tensor.name, 0, read);
    EXPECT_EQ(read, written) << tensor.name;
  }
}

/// The parameter as it is drawn whole, in the bytes of a chip that holds all of it.
std::vector<std::byte> drawn_whole(const blocks::Parameter& parameter, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(ir::num_elements(parameter.shape)));
  blocks::initialise(parameter, seed, 0, values);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

TEST(CudaHostPathTest, WeightsArriveInPiecesWithTheBitsTheyAreDrawnWith) {
  const StandInRun run({"model.vocab=20000"});  // an embedding of more than one piece
  size_t largest = 0;
  for (const blocks::Parameter& parameter : run.compiled().parameters) {
    const std::vector<std::byte> wanted = drawn_whole(parameter, 1);
    largest = std::max(largest, wanted.size());
    std::vector<std::byte> held(wanted.size());
    run.executable().read_state(parameter.name, 0, held);
    EXPECT_EQ(held, wanted) << parameter.name;
  }
  EXPECT_GT(largest, runtime::cuda::UploadRing::kBytes / 4);
}

// In any order: each chip has a thread of its own.
std::vector<std::string> sorted_texts(const std::vector<Operation>& operations) {
  std::vector<std::string> texts = texts_of(operations);
  std::ranges::sort(texts);
  return texts;
}

TEST(CudaHostPathTest, VirtualChipsHaveArenasOfTheirOwnAndAStepOfAllIsOneGraph) {
  StandInRun run({"layout.data_parallel=2", "layout.zero=1"});
  run.executable().run_step(runtime::StepMode::plain);
  const std::vector<Operation> first = run.take_operations();
  EXPECT_EQ(run.machine().graphs, 0) << "the first step runs as it comes";
  const int waits = run.machine().waits;
  for (int step = 0; step < 3; ++step) {
    run.executable().run_step(runtime::StepMode::plain);
    const std::vector<Operation> replayed = run.take_operations();
    EXPECT_TRUE(std::ranges::all_of(replayed, &Operation::replayed));
    EXPECT_EQ(sorted_texts(replayed), sorted_texts(first));
  }
  EXPECT_EQ(run.machine().graphs, 1);
  EXPECT_EQ(run.machine().graph_launches, 3);
  EXPECT_EQ(run.machine().waits, waits);
  size_t arenas = 0;
  for (const auto& [address, bytes] : run.machine().allocated)
    arenas += static_cast<int64_t>(bytes) == run.programs().memory.total_bytes ? 1 : 0;
  EXPECT_EQ(arenas, 2U);
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

// Messages between stages have streams of their own, and so has every group.
TEST(CudaHostPathTest, LayoutsWithManyStreamsAreOneGraph) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"layout.pipeline_parallel=2"},
        std::vector<std::string>{"layout.data_parallel=2", "layout.tensor_parallel=2", "layout.zero=3"}}) {
    StandInRun run(layout);
    for (int step = 0; step < 4; ++step) run.executable().run_step(runtime::StepMode::plain);
    EXPECT_EQ(run.machine().graphs, 1) << layout[0];
    EXPECT_EQ(run.machine().graph_launches, 3) << layout[0];
    EXPECT_EQ(run.machine().breaches, std::vector<std::string>()) << layout[0];
  }
}

TEST(CudaHostPathTest, AGraphThatTheDriverRefusesEndsTheStepOfAllChips) {
  for (const char* call : {"cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    StandInRun run({"layout.data_parallel=2"});
    run.executable().run_step(runtime::StepMode::plain);
    run.machine().answers[call] = 719;
    const base::Problem problem =
        problem_of(base::Code::E3204, [&] { run.executable().run_step(runtime::StepMode::plain); });
    EXPECT_EQ(problem.where, call);
  }
}

// ---- In the host's memory ----

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
  EXPECT_EQ(memory.planned_host_bytes, plan.host_bytes);
  EXPECT_EQ(memory.measured_host_bytes, plan.host_bytes);
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

TEST(CudaHostPathTest, OffloadedStateStreamsThroughPlannedBuffersInOneGraph) {
  StandInRun run(kOffload);
  const size_t copies = copies_in_update(run);
  EXPECT_GT(copies, 20U);
  EXPECT_EQ(copies_in_steps_alike(run), copies) << "half of them to the device, half of them back";
}

TEST(CudaHostPathTest, BothMemoriesAreAsPlanned) {
  const std::vector<std::string> tokens = {"train.batch=8", "train.sequence=256"};  // more than the ring takes
  const StandInRun plain(tokens);
  StandInRun run({tokens[0], tokens[1], kOffload[0]});
  run.step();
  const memory::MemoryPlan &before = plain.programs().memory, &after = run.programs().memory;
  expect_memories_as_planned(run);
  EXPECT_EQ(before.host_bytes, 0);
  EXPECT_EQ(after.state_bytes + after.host_bytes, before.state_bytes) << "state is in one of them";
  EXPECT_LT(after.total_bytes, before.total_bytes);
}

// Also between virtual chips, whose collectives have streams of their own, and in a pipeline.
TEST(CudaHostPathTest, OffloadedStateOfManyChipsIsOneGraph) {
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"layout.data_parallel=2", "layout.zero=1", "layout.offload=optimizer"},
        std::vector<std::string>{"layout.data_parallel=2", "layout.zero=3", "layout.offload=optimizer"},
        std::vector<std::string>{"layout.pipeline_parallel=2", "layout.offload=optimizer"}}) {
    StandInRun run(layout);
    expect_one_graph(run, layout.front());
  }
}

TEST(CudaHostPathTest, OffloadedStateIsZeroAtFirstAndIsWrittenAndReadWhereItIs) {
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

TEST(CudaHostPathTest, CheckedAndProfiledStepsOfOffloadedStateRunNodeByNode) { expect_checked_and_profiled(kOffload); }

TEST(CudaHostPathTest, OffloadedActivationsStreamThroughPlannedBuffersInOneGraph) {
  StandInRun run(kOffloadActivations);
  const size_t copies = copies_in(run.programs().find(compile::ProgramKind::micro_step).graph);
  EXPECT_GT(copies, 20U);
  EXPECT_EQ(copies_in_update(run), 0U);
  EXPECT_EQ(copies_in_steps_alike(run), 2 * copies)
      << "in both micro-steps, half of them to the device, half of them back";
}

// Micro-steps have the same bytes of the host one after the other.
TEST(CudaHostPathTest, BothMemoriesAreAsPlannedWithOffloadedActivations) {
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
    if (ops::is_in_host_memory(node))
      stored += run.programs().find(compile::ProgramKind::micro_step).graph.type(node.results[0]).bytes();
  EXPECT_GT(stored, 0);
  EXPECT_GE(after.host_bytes, stored) << "all of them are there between the passes";
  EXPECT_LT(after.host_bytes, 2 * stored);
}

// Between chips whose collectives have streams of their own; in a pipeline as state of the micro-batches in flight,
// with either form of backward passes, with several parts of the model on a chip, and of chosen blocks; and with state
// beside them.
TEST(CudaHostPathTest, OffloadedActivationsOfManyChipsAreOneGraph) {
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

TEST(CudaHostPathTest, CheckedAndProfiledStepsOfOffloadedActivationsRunNodeByNode) {
  expect_checked_and_profiled(kOffloadActivations);
}

TEST(CudaHostPathTest, AHostThatRefusesPinnedMemoryIsE2005) {
  const StandInGpu gpu;
  gpu.machine().answers["cuMemHostAlloc"] = 2;
  const recipe::Recipe recipe = hybrid(kOffload);
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  const base::Problem problem = problem_of(
      base::Code::E2005, [&] { runtime::cuda::load(compiled, runtime::load_options(recipe, 1), gpu.parts()); });
  EXPECT_NE(problem.next.find("layout.offload: none"), std::string::npos) << problem.next;
  EXPECT_EQ(gpu.machine().allocated.size(), 0U);
}

// ---- What goes wrong ----

TEST(CudaHostPathTest, AGpuThatFailsMidRunIsE3204WithTheWayOn) {
  StandInRun run;
  for (int step = 0; step < 2; ++step) run.step();
  run.machine().answers["cuGraphLaunch"] = 700;
  const base::Problem problem = problem_of(base::Code::E3204, [&] { run.step(); });
  EXPECT_EQ(problem.where, "cuGraphLaunch");
  EXPECT_EQ(problem.got, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
  EXPECT_NE(problem.next.find("resume from the last checkpoint"), std::string::npos) << problem.next;
}

TEST(CudaHostPathTest, ALaunchThatIsRefusedNamesTheCall) {
  StandInRun run;
  run.machine().answers["cuLaunchKernelEx"] = 701;
  EXPECT_EQ(problem_of(base::Code::E3204, [&] { run.step(); }).where, "cuLaunchKernelEx");
}

TEST(CudaHostPathTest, APlanThatTheGpuCannotHoldIsE2001) {
  const StandInGpu gpu;
  gpu.machine().memory_bytes = size_t{1} << 20;
  const recipe::Recipe recipe = hybrid();
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  const base::Problem problem = problem_of(
      base::Code::E2001, [&] { runtime::cuda::load(compiled, runtime::load_options(recipe, 1), gpu.parts()); });
  EXPECT_NE((problem.where + problem.got).find("NVIDIA H200"), std::string::npos) << problem.where << problem.got;
  EXPECT_EQ(gpu.machine().allocated.size(), 0U);
}

/// What loading the recipe on such a machine is refused with; nothing of the GPU's memory stays taken.
base::Problem refusal_on(const StandInGpu& gpu, base::Code code) {
  const recipe::Recipe recipe = hybrid();
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  base::Problem problem =
      problem_of(code, [&] { runtime::cuda::load(compiled, runtime::load_options(recipe, 1), gpu.parts()); });
  EXPECT_EQ(gpu.machine().allocated.size(), 0U);
  EXPECT_EQ(gpu.machine().breaches, std::vector<std::string>());
  return problem;
}

TEST(CudaHostPathTest, MemoryThatOtherProgramsHaveIsNotPlannedWith) {
  const StandInGpu gpu;
  gpu.machine().taken_bytes = gpu.machine().memory_bytes - (size_t{1} << 20);
  const base::Problem problem = refusal_on(gpu, base::Code::E2001);
  EXPECT_NE((problem.where + problem.got + problem.wanted).find("1048576"), std::string::npos)
      << problem.where << problem.got << problem.wanted;
}

TEST(CudaHostPathTest, MemoryThatAnotherProgramTakesWhileLoadingIsE2003) {
  const StandInGpu gpu;
  gpu.machine().answers["cuMemAlloc_v2"] = 2;
  EXPECT_NE(refusal_on(gpu, base::Code::E2003).next.find("nvidia-smi"), std::string::npos);
}

TEST(CudaHostPathTest, ADriverWithoutMemoryForCodeIsE2004) {
  const StandInGpu gpu;
  gpu.machine().answers["cuModuleLoadData"] = 2;
  EXPECT_EQ(refusal_on(gpu, base::Code::E2004).where, "cuModuleLoadData");
}

TEST(CudaHostPathTest, ACardThatAnotherProgramHasForItselfSaysSo) {
  const StandInGpu gpu;
  gpu.machine().answers["cuDevicePrimaryCtxRetain"] = 46;
  const base::Problem problem = refusal_on(gpu, base::Code::E3204);
  EXPECT_EQ(problem.got, "CUDA_ERROR_DEVICE_UNAVAILABLE (46)");
  EXPECT_NE(problem.next.find("another program has the GPU for itself"), std::string::npos) << problem.next;
}

TEST(CudaHostPathTest, DeviceCodeThatTheDriverIsTooOldForSaysSo) {
  const StandInGpu gpu;
  gpu.machine().answers["cuModuleLoadData"] = 222;
  EXPECT_NE(refusal_on(gpu, base::Code::E3204).next.find("update the driver"), std::string::npos);
}

TEST(CudaHostPathTest, ALibraryThatIsMissingOrAnotherOneIsE1509) {
  const StandInGpu without, mixed;
  const std::filesystem::path name = "libnvrtc.so.13";
  std::filesystem::remove(without.folder() / name);
  EXPECT_EQ(refusal_on(without, base::Code::E1509).where, "NVRTC");
  std::filesystem::remove(mixed.folder() / name);
  std::filesystem::copy_file(mixed.folder() / "libcublasLt.so.13", mixed.folder() / name);
  EXPECT_TRUE(refusal_on(mixed, base::Code::E1509).got.starts_with("no function nvrtc"));
}

TEST(CudaHostPathTest, AGpuThatIsLostIsSeenWhereTheHostWaits) {
  StandInRun run;
  for (int step = 0; step < 3; ++step) run.step();
  run.machine().answers["cuStreamSynchronize"] = 719;
  const base::Problem problem = problem_of(base::Code::E3204, [&] { run.executable().fetch("loss", 0); });
  EXPECT_EQ(problem.got, "CUDA_ERROR_LAUNCH_FAILED (719)");
  EXPECT_NE(problem.next.find("resume from the last checkpoint"), std::string::npos) << problem.next;
}

TEST(CudaHostPathTest, ARunSaysWhenItsBitsRepeat) {
  const StandInRun run;
  const std::string repeats = run.executable().repeats();
  EXPECT_NE(repeats.find("the same driver and libraries and algorithms of products, here "), std::string::npos)
      << repeats;
}

TEST(CudaHostPathTest, AnotherGenerationOfCardIsE1508) {
  const StandInGpu gpu;
  gpu.machine().capability = 80;
  const recipe::Recipe recipe = hybrid();
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  const base::Problem problem = problem_of(
      base::Code::E1508, [&] { runtime::cuda::load(compiled, runtime::load_options(recipe, 1), gpu.parts()); });
  EXPECT_NE(problem.got.find("8.0"), std::string::npos) << problem.got;
}

TEST(CudaHostPathTest, ABuildWithoutDeviceCodeSaysWhichKernelItLacks) {
  const StandInGpu gpu;
  const recipe::Recipe recipe = hybrid();
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  runtime::cuda::LoadParts parts = gpu.parts();
  parts.find_cubin = [](std::string_view) { return std::span<const std::byte>(); };
  const base::Problem problem =
      problem_of(base::Code::E1505, [&] { runtime::cuda::load(compiled, runtime::load_options(recipe, 1), parts); });
  EXPECT_TRUE(problem.where.starts_with("kernel ")) << problem.where;
}

}  // namespace
}  // namespace megacpp::testing_support
