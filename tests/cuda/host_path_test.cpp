// SPDX-License-Identifier: Apache-2.0
// The whole host path without a GPU: a hybrid model is compiled, loaded and stepped on a driver that stands in for
// NVIDIA's, which records every launch with the device memory it was handed and objects to what no run may do.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/machine/cuda/upload_ring.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/blocks/parameter.h"
#include "megacpp/program/compile/compile.h"
#include "tests/cuda/stand_in_gpu.h"
#include "tests/cuda/stand_in_run.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

using stand_in_cuda::Operation;

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
  const base::Problem problem = problem_of(base::Code::E2001, [&] {
    runtime::cuda::load(compiled, runtime::load_options(recipe::run_request(recipe), 1), gpu.parts());
  });
  EXPECT_NE((problem.where + problem.got).find("NVIDIA H200"), std::string::npos) << problem.where << problem.got;
  EXPECT_EQ(gpu.machine().allocated.size(), 0U);
}

/// What loading the recipe on such a machine is refused with; nothing of the GPU's memory stays taken.
base::Problem refusal_on(const StandInGpu& gpu, base::Code code) {
  const recipe::Recipe recipe = hybrid();
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  base::Problem problem = problem_of(
      code, [&] { runtime::cuda::load(compiled, runtime::load_options(recipe::run_request(recipe), 1), gpu.parts()); });
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
  gpu.machine().capabilities[0] = 80;
  const recipe::Recipe recipe = hybrid();
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  const base::Problem problem = problem_of(base::Code::E1508, [&] {
    runtime::cuda::load(compiled, runtime::load_options(recipe::run_request(recipe), 1), gpu.parts());
  });
  EXPECT_NE(problem.got.find("8.0"), std::string::npos) << problem.got;
}

TEST(CudaHostPathTest, ABuildWithoutDeviceCodeSaysWhichKernelItLacks) {
  const StandInGpu gpu;
  const recipe::Recipe recipe = hybrid();
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  runtime::cuda::LoadParts parts = gpu.parts();
  parts.find_cubin = [](std::string_view) { return std::span<const std::byte>(); };
  const base::Problem problem = problem_of(base::Code::E1505, [&] {
    runtime::cuda::load(compiled, runtime::load_options(recipe::run_request(recipe), 1), parts);
  });
  EXPECT_TRUE(problem.where.starts_with("kernel ")) << problem.where;
}

}  // namespace
}  // namespace megacpp::testing_support
