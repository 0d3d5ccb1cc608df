// SPDX-License-Identifier: Apache-2.0
// Chips of one process on several GPUs, without any: each stands in with memory, a context, streams and code of its
// own, and objects to what is another's.
#include "megacpp/machine/cuda/peer_gpus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/collectives/transport.h"
#include "megacpp/machine/cuda/algorithm_search.h"
#include "megacpp/machine/cuda/device_communicator.h"
#include "megacpp/machine/cuda/device_world.h"
#include "megacpp/machine/cuda/handles.h"
#include "megacpp/machine/cuda/shared_algorithms.h"
#include "tests/cuda/stand_in_gpu.h"
#include "tests/cuda/stand_in_run.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

using base::Code;
using runtime::cuda::Gpu;
using runtime::cuda::Gpus;
using stand_in_cuda::Operation;

/// Not connected.
Gpus open_two(const StandInGpu& stand_in) {
  stand_in.machine().devices = 2;
  return {stand_in.open(0), stand_in.open(1)};
}

// ---- Which GPU a chip is on ----

TEST(CudaPeerGpusTest, NeighboursShareAGpuAndNoGpuHasTwoChipsMore) {
  const auto places = [](int64_t chips, size_t gpus) {
    std::vector<size_t> found;
    for (int64_t chip = 0; chip < chips; ++chip) found.push_back(runtime::cuda::gpu_of_chip(chip, chips, gpus));
    return found;
  };
  EXPECT_EQ(places(4, 1), (std::vector<size_t>{0, 0, 0, 0}));
  EXPECT_EQ(places(4, 2), (std::vector<size_t>{0, 0, 1, 1}));
  EXPECT_EQ(places(4, 3), (std::vector<size_t>{0, 0, 1, 2}));
  EXPECT_EQ(places(4, 4), (std::vector<size_t>{0, 1, 2, 3}));
}

// ---- Runs ----

/// -1: it is before all memory of devices.
int owner_of(const stand_in_cuda::Machine& machine, uint64_t address) {
  const auto behind = machine.places.upper_bound(address);
  return behind == machine.places.begin() ? -1 : std::prev(behind)->second;
}

/// Chips by the size of their arena and the device it is on.
using Arenas = std::map<std::pair<int64_t, int>, int>;

Arenas planned_arenas(const StandInRun& run, size_t devices) {
  const int64_t chips = run.compiled().mesh.chips();
  Arenas arenas;
  for (int64_t chip = 0; chip < chips; ++chip) {
    const auto device = static_cast<int>(runtime::cuda::gpu_of_chip(chip, chips, devices));
    ++arenas[{run.compiled().programs_of(chip).memory.total_bytes, device}];
  }
  return arenas;
}

Arenas obtained_arenas(const StandInRun& run) {
  std::set<int64_t> sizes;
  for (int64_t chip = 0; chip < run.compiled().mesh.chips(); ++chip)
    sizes.insert(run.compiled().programs_of(chip).memory.total_bytes);
  Arenas arenas;
  for (const auto& [address, bytes] : run.machine().allocated)
    if (sizes.contains(static_cast<int64_t>(bytes)))
      ++arenas[{static_cast<int64_t>(bytes), run.machine().places.at(address)}];
  return arenas;
}

/// Devices that have a launch between chips which reads or writes memory of another device.
std::set<int> devices_with_peer_memory(const StandInRun& run, const std::vector<Operation>& operations) {
  std::set<int> devices;
  for (const Operation& operation : operations)
    for (const stand_in_cuda::Range& range : operation.ranges)
      if (operation.name.starts_with("collective_") && owner_of(run.machine(), range.address) != operation.device)
        devices.insert(operation.device);
  return devices;
}

/// Whether what chips do by themselves touches memory of their own GPU alone.
void expect_at_home(const StandInRun& run, const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    if (operation.name.starts_with("collective_")) continue;
    for (const stand_in_cuda::Range& range : operation.ranges)
      ASSERT_EQ(owner_of(run.machine(), range.address), operation.device) << operation.name;
  }
}

struct PeerRow {
  std::string name;
  int devices;
  std::vector<std::string> layout;
};
void PrintTo(const PeerRow& row, std::ostream* out) { *out << row.name; }

const std::vector<PeerRow>& peer_rows() {
  const std::vector<std::string> split = {"layout.data_parallel=2", "layout.tensor_parallel=2", "layout.zero=3"};
  static const std::vector<PeerRow> rows = {
      {"data", 2, {"layout.data_parallel=2", "layout.zero=1"}},
      {"stages", 2, {"layout.pipeline_parallel=2"}},
      {"expert", 2, {"layout.expert_parallel=2"}},
      {"offload", 2, {"layout.data_parallel=2", "layout.zero=1", "layout.offload=optimizer"}},
      {"tensor_and_data", 2, split},
      {"tensor_and_data", 3, split},
      {"tensor_and_data", 4, split},
  };
  return rows;
}

class CudaPeerRunTest : public ::testing::TestWithParam<PeerRow> {};

TEST_P(CudaPeerRunTest, EveryChipStaysOnItsGpuAndAStepOfAllIsOneGraph) {
  const PeerRow& row = GetParam();
  StandInRun run(row.layout, false, row.devices);
  EXPECT_EQ(obtained_arenas(run), planned_arenas(run, static_cast<size_t>(row.devices)));
  run.executable().run_step(runtime::StepMode::plain);
  const std::vector<Operation> first = run.take_operations();
  expect_at_home(run, first);
  EXPECT_EQ(devices_with_peer_memory(run, first).size(), static_cast<size_t>(row.devices));
  for (int step = 0; step < 3; ++step) {
    run.executable().run_step(runtime::StepMode::plain);
    const std::vector<Operation> replayed = run.take_operations();
    EXPECT_TRUE(std::ranges::all_of(replayed, &Operation::replayed));
    EXPECT_EQ(replayed.size(), first.size());
  }
  EXPECT_EQ(run.machine().graphs, 1);
  EXPECT_EQ(run.machine().graph_launches, 3);
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaPeerRunTest, ::testing::ValuesIn(peer_rows()),
                         [](const auto& info) { return info.param.name + std::to_string(info.param.devices); });

TEST(CudaPeerGpusTest, ProfiledAndCheckedStepsRunOnSeveralGpusToo) {
  StandInRun checked({"layout.data_parallel=2"}, false, 2), profiled({"layout.data_parallel=2"}, true, 2);
  checked.executable().run_step(runtime::StepMode::check_values);
  profiled.executable().run_step(runtime::StepMode::plain);
  EXPECT_EQ(checked.machine().breaches, std::vector<std::string>());
  EXPECT_EQ(profiled.machine().breaches, std::vector<std::string>());
}

TEST(CudaPeerGpusTest, TheStartSaysWhatIsPlannedOnEveryGpu) {
  const StandInRun run({"layout.data_parallel=2"}, false, 2);
  const std::vector<std::string> notes = run.executable().load_notes();
  for (const std::string gpu : {"planned on GPU 0, NVIDIA H200", "planned on GPU 1, NVIDIA H200"})
    EXPECT_EQ(std::ranges::count_if(notes, [&](const std::string& n) { return n.find(gpu) != std::string::npos; }), 1)
        << gpu;
  const runtime::ChipMemory memory = run.executable().memory(1);
  EXPECT_EQ(memory.used_bytes, run.compiled().programs_of(1).memory.total_bytes);
}

// In turn, so that the context that is current is always that of the other.
TEST(CudaPeerGpusTest, OneThreadReachesTheStateOfChipsOnEveryGpu) {
  const StandInRun run({"layout.data_parallel=2"}, false, 2);
  const std::string& name = run.compiled().parameters.front().name;
  const auto bytes = static_cast<size_t>(run.executable().state_bytes(name, 0).value());
  for (const int64_t chip : {0, 1})
    run.executable().write_state(name, chip, std::vector<std::byte>(bytes, static_cast<std::byte>(chip + 1)));
  for (const int64_t chip : {0, 1}) {
    std::vector<std::byte> read(bytes);
    run.executable().read_state(name, chip, read);
    EXPECT_EQ(read, std::vector<std::byte>(bytes, static_cast<std::byte>(chip + 1)));
  }
  EXPECT_EQ(run.machine().breaches, std::vector<std::string>());
}

/// Loads on such a machine.
void load_on(const StandInGpu& gpu, const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  runtime::cuda::load(compiled, runtime::load_options(recipe::run_request(recipe), compiled.mesh.chips()), gpu.parts());
}

TEST(CudaPeerGpusTest, EachGpuHasRoomForItsOwnChipsAlone) {
  const recipe::Recipe recipe = hybrid({"layout.data_parallel=2"});
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  const auto bytes = static_cast<size_t>(compiled.programs_of(0).memory.total_bytes);
  const StandInGpu one, two, full;
  two.machine().devices = full.machine().devices = 2;
  one.machine().memory_bytes = two.machine().memory_bytes = 2 * bytes - 1;
  full.machine().memory_bytes = bytes - 1;
  problem_of(Code::E2001, [&] { load_on(one, recipe, compiled); });
  load_on(two, recipe, compiled);
  const base::Problem problem = problem_of(Code::E2001, [&] { load_on(full, recipe, compiled); });
  EXPECT_NE(problem.where.find("GPU 0, NVIDIA H200"), std::string::npos) << problem.where;
  EXPECT_NE(problem.next.find("other programs on GPU 0"), std::string::npos) << problem.next;
  EXPECT_NE(problem.next.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << problem.next;
  for (const StandInGpu* gpu : {&one, &two, &full}) {
    EXPECT_TRUE(gpu->machine().allocated.empty()) << "all is given back";
    EXPECT_EQ(gpu->machine().breaches, std::vector<std::string>());
  }
}

TEST(CudaPeerGpusTest, MemoryThatIsRefusedNamesTheGpu) {
  const StandInGpu gpu;
  gpu.machine().devices = 2;
  gpu.machine().answers["cuMemAlloc_v2@1"] = 2;
  const recipe::Recipe recipe = hybrid({"layout.data_parallel=2"});
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  const base::Problem problem = problem_of(Code::E2003, [&] { load_on(gpu, recipe, compiled); });
  EXPECT_NE(problem.where.find("chip 1 on GPU 1, NVIDIA H200"), std::string::npos) << problem.where;
  EXPECT_TRUE(gpu.machine().allocated.empty());
  EXPECT_EQ(gpu.machine().breaches, std::vector<std::string>());
}

// ---- What is refused ----

base::Problem refusal_of_two(const StandInGpu& gpu, Code code) {
  gpu.machine().devices = 2;
  const recipe::Recipe recipe = hybrid({"layout.data_parallel=2"});
  const compile::Compiled compiled = StandInRun::compile_for_gpus(recipe);
  base::Problem problem = problem_of(code, [&] { load_on(gpu, recipe, compiled); });
  EXPECT_TRUE(gpu.machine().allocated.empty());
  EXPECT_EQ(gpu.machine().breaches, std::vector<std::string>());
  return problem;
}

TEST(CudaPeerGpusTest, GpusWithoutPeerAccessAreE1505WithTheWaysOut) {
  const StandInGpu gpu;
  gpu.machine().has_peers = false;
  const base::Problem problem = refusal_of_two(gpu, Code::E1505);
  EXPECT_EQ(problem.got, "GPU 0, NVIDIA H200 cannot access memory of GPU 1, NVIDIA H200");
  EXPECT_NE(problem.next.find("mpirun"), std::string::npos) << problem.next;
  EXPECT_NE(problem.next.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << problem.next;
}

TEST(CudaPeerGpusTest, GpusOfDifferentKindsAreE1505) {
  const StandInGpu gpu;
  gpu.machine().names[1] = "NVIDIA H100 80GB HBM3";
  const base::Problem problem = refusal_of_two(gpu, Code::E1505);
  EXPECT_NE(problem.got.find("NVIDIA H200"), std::string::npos) << problem.got;
  EXPECT_NE(problem.got.find("NVIDIA H100 80GB HBM3"), std::string::npos) << problem.got;
}

// Whichever of the two comes first: a process may have been started for the other one.
TEST(CudaPeerGpusTest, AGpuOfAnotherGenerationBesideIsE1505ThatSaysHowToLeaveItOut) {
  for (const int older : {0, 1}) {
    const StandInGpu gpu;
    gpu.machine().names[older] = "NVIDIA A100-SXM4-80GB";
    gpu.machine().capabilities[older] = 80;
    const base::Problem problem = refusal_of_two(gpu, Code::E1505);
    EXPECT_NE(problem.got.find("NVIDIA A100-SXM4-80GB"), std::string::npos) << problem.got;
    EXPECT_NE(problem.next.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << problem.next;
  }
}

TEST(CudaPeerGpusTest, ARunOfOneChipDoesNotLookAtAGpuOfAnotherGeneration) {
  const StandInGpu gpu;
  gpu.machine().devices = 2;
  gpu.machine().names[1] = "NVIDIA A100-SXM4-80GB";
  gpu.machine().capabilities[1] = 80;
  const recipe::Recipe recipe = hybrid();
  load_on(gpu, recipe, StandInRun::compile_for_gpus(recipe));
  EXPECT_EQ(gpu.machine().breaches, std::vector<std::string>());
}

TEST(CudaPeerGpusTest, AccessThatTheDriverDoesNotGiveNamesTheCall) {
  const StandInGpu gpu;
  gpu.machine().answers["cuCtxEnablePeerAccess"] = 711;
  const base::Problem problem = refusal_of_two(gpu, Code::E3204);
  EXPECT_EQ(problem.where, "cuCtxEnablePeerAccess");
  EXPECT_EQ(problem.got, "CUDA_ERROR_TOO_MANY_PEERS (711)");
}

TEST(CudaPeerGpusTest, ARunOfOneChipTakesOneGpuAndNeedsNoPeer) {
  const StandInGpu gpu;
  gpu.machine().devices = 2;
  gpu.machine().has_peers = false;
  const recipe::Recipe recipe = hybrid();
  load_on(gpu, recipe, StandInRun::compile_for_gpus(recipe));
  EXPECT_EQ(gpu.machine().breaches, std::vector<std::string>());
}

struct RefusedCall {
  std::string symbol;  // as Machine::answers has it
  int steps;           // that run before it is refused
};

TEST(CudaPeerGpusTest, ACallThatOneGpuRefusesEndsTheStepOfAllChips) {
  for (const RefusedCall& refused : {RefusedCall{"cuLaunchKernelEx@1", 0}, RefusedCall{"cuStreamBeginCapture_v2", 1},
                                     RefusedCall{"cuGraphInstantiateWithFlags", 1}, RefusedCall{"cuGraphLaunch", 2}}) {
    auto run = std::make_unique<StandInRun>(std::vector<std::string>{"layout.data_parallel=2"}, false, 2);
    stand_in_cuda::Machine& machine = run->machine();  // stays: its library is never closed
    for (int step = 0; step < refused.steps; ++step) run->executable().run_step(runtime::StepMode::plain);
    machine.answers[refused.symbol] = 719;
    const base::Problem problem =
        problem_of(Code::E3204, [&] { run->executable().run_step(runtime::StepMode::plain); });
    EXPECT_EQ(problem.where, refused.symbol.substr(0, refused.symbol.find('@')));
    run.reset();
    EXPECT_TRUE(machine.allocated.empty()) << refused.symbol;
    EXPECT_EQ(machine.breaches, std::vector<std::string>()) << refused.symbol;
  }
}

// ---- The order of calls ----

/// Two chips on a GPU each, with a stream that is captured and memory: an operand, and 512 bytes behind it a result.
/// What one of them overwrites from the host when its call is finished, nothing may touch any more: the stand-in
/// objects to copies from the host that are not ordered behind launches on the same memory.
class CapturedPeersTest : public ::testing::Test {
 protected:
  CapturedPeersTest() {
    runtime::cuda::connect_peers(gpus_);
    world_ = runtime::cuda::make_device_world(
        {.control = collectives::inproc_transport().make({.chips = 2}), .gpus = gpus_, .wait_limit = kLimit});
    for (const std::shared_ptr<Gpu>& gpu : gpus_) {
      gpu->attach();
      memory_.push_back(gpu->toolbox().borrow(1024));
      marks_.emplace_back(gpu->driver());
    }
  }

  collectives::Communicator& chip(size_t number) { return world_->communicator(static_cast<int64_t>(number)); }
  runtime::cuda::Stream* stream(size_t number) const { return gpus_[number]->toolbox().stream(); }
  collectives::Part part(size_t number) const {
    return {.in = reinterpret_cast<const void*>(memory_[number]->address()),
            .out = reinterpret_cast<void*>(memory_[number]->address() + 512),
            .shape = {64}};
  }

  /// Both have started it, and order their streams behind it.
  void exchange(const std::vector<collectives::Call>& calls) {
    std::vector<collectives::Ticket> tickets;
    for (size_t number = 0; number < 2; ++number)
      tickets.push_back(chip(number).start(calls[number], {.handle = stream(number)}));
    for (size_t number = 0; number < 2; ++number) chip(number).finish(tickets[number], {.handle = stream(number)});
  }

  /// A gathering of both, each chip's end of it.
  std::vector<collectives::Call> gathering() {
    std::vector<collectives::Call> calls(2);
    for (size_t number = 0; number < 2; ++number) {
      calls[number].kind = collectives::Kind::all_gather;
      calls[number].group = &chip(number).create_group({0, 1});
      calls[number].parts = {part(number)};
      calls[number].where = "gathered";
    }
    return calls;
  }

  /// Whether a thread that goes on as the first chip still has its GPU.
  void expect_first_is_current() {
    driver_.memset_bytes_async(memory_[0]->address(), 0, 256, stream(0));
    EXPECT_EQ(stand_in_.machine().breaches, std::vector<std::string>());
  }

  void overwrite_operand(size_t number) {
    gpus_[number]->attach();
    driver_.memcpy_to_device_async(memory_[number]->address(), host_.data(), host_.size(), stream(number));
  }

  /// Into one graph, from the stream of the first chip and back to it.
  template <typename Work>
  void capture(const Work& work) {
    constexpr int kRelaxed = 2;
    gpus_[0]->attach();
    driver_.stream_begin_capture(stream(0), kRelaxed);
    driver_.event_record(marks_[0].get(), stream(0));
    driver_.stream_wait_event(stream(1), marks_[0].get(), 0);
    work();
    gpus_[0]->attach();
    driver_.event_record(marks_[1].get(), stream(1));
    driver_.stream_wait_event(stream(0), marks_[1].get(), 0);
    runtime::cuda::Graph* graph = nullptr;
    driver_.stream_end_capture(stream(0), &graph);
    driver_.graph_destroy(graph);
  }

  static constexpr std::chrono::milliseconds kLimit = std::chrono::seconds(20);

  StandInGpu stand_in_;
  const Gpus gpus_ = open_two(stand_in_);
  const runtime::cuda::Driver& driver_ = gpus_[0]->driver();
  std::unique_ptr<collectives::World> world_;
  std::vector<std::unique_ptr<runtime::cuda::Borrowed>> memory_;
  std::vector<runtime::cuda::OwnedEvent> marks_;
  const std::vector<std::byte> host_ = std::vector<std::byte>(256);
};

TEST_F(CapturedPeersTest, AnOperandIsFreeWhenTheGpusOfAllMembersHaveReadIt) {
  const std::vector<collectives::Call> calls = gathering();
  capture([&] {
    exchange(calls);
    for (const size_t number : {0, 1}) overwrite_operand(number);
  });
  EXPECT_EQ(stand_in_.machine().breaches, std::vector<std::string>());
}

TEST_F(CapturedPeersTest, WhatIsSentIsFreeWhenTheGpuOfTheReceiverHasReadIt) {
  std::vector<collectives::Call> calls(2);
  for (size_t number = 0; number < 2; ++number) {
    calls[number].kind = number == 0 ? collectives::Kind::send : collectives::Kind::recv;
    calls[number].peer = static_cast<int64_t>(1 - number);
    calls[number].parts = {part(number)};
    calls[number].where = "sent";
  }
  capture([&] {
    exchange(calls);
    overwrite_operand(0);
  });
  EXPECT_EQ(stand_in_.machine().breaches, std::vector<std::string>());
}

TEST_F(CapturedPeersTest, OneThatIsOverwrittenTooEarlyIsSeen) {
  std::vector<collectives::Call> calls(2);
  std::vector<collectives::Ticket> tickets;
  for (size_t number = 0; number < 2; ++number) {
    calls[number].group = &chip(number).create_group({0, 1});
    calls[number].parts = {part(number)};
    calls[number].where = "added";
  }
  capture([&] {
    for (size_t number = 0; number < 2; ++number)
      tickets.push_back(chip(number).start(calls[number], {.handle = stream(number)}));
    overwrite_operand(1);
    for (size_t number = 0; number < 2; ++number) chip(number).finish(tickets[number], {.handle = stream(number)});
  });
  EXPECT_FALSE(stand_in_.machine().breaches.empty());
}

// ---- Calls that fail on another GPU ----

TEST_F(CapturedPeersTest, ALaunchThatAnotherGpuRefusesLeavesTheOwnOneCurrent) {
  const std::vector<collectives::Call> calls = gathering();
  chip(1).start(calls[1], {.handle = stream(1)});
  stand_in_.machine().answers["cuLaunchKernelEx@1"] = 701;
  problem_of(Code::E3204, [&] { chip(0).start(calls[0], {.handle = stream(0)}); });
  expect_first_is_current();
  chip(0).abort("a launch was refused");
}

TEST_F(CapturedPeersTest, AStreamThatAnotherGpuRefusesLeavesTheOwnOneCurrent) {
  stand_in_.machine().answers["cuStreamCreate@1"] = 719;
  gpus_[0]->attach();
  problem_of(Code::E3204, [&] { chip(0).create_group({0, 1}); });
  expect_first_is_current();
}

// kNotReady is what a GPU that waits for a lost one answers.
TEST_F(CapturedPeersTest, AFailureIsKnownWhileStreamsThatNeverEndAreAwaited) {
  stand_in_.machine().answers["cuStreamQuery"] = runtime::cuda::kNotReady;
  const auto begin = std::chrono::steady_clock::now();
  std::thread failing([&] { chip(0).abort("a GPU is lost"); });
  while (!world_->has_failed() && std::chrono::steady_clock::now() - begin < kLimit) std::this_thread::yield();
  const auto known = std::chrono::steady_clock::now() - begin;
  failing.join();
  chip(1).abort("another chip failed");  // the second waits no longer than the first
  EXPECT_LT(known, std::chrono::milliseconds(2500));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
}

TEST_F(CapturedPeersTest, WhoWaitsForAStreamThatNeverEndsHearsOfTheFailure) {
  stand_in_.machine().answers["cuStreamQuery"] = runtime::cuda::kNotReady;
  std::thread failing([&] { chip(0).abort("a GPU is lost"); });
  const base::Problem problem = problem_of(Code::E3101, [&] {
    gpus_[1]->attach();
    dynamic_cast<runtime::cuda::DeviceCommunicator&>(chip(1)).wait(stream(1));
  });
  failing.join();
  EXPECT_NE(problem.got.find("a GPU is lost"), std::string::npos) << problem.got;
}

TEST_F(CapturedPeersTest, AStreamThatNeverEndsIsE3102AfterTheLimit) {
  const std::unique_ptr<collectives::World> hasty =
      runtime::cuda::make_device_world({.control = collectives::inproc_transport().make({.chips = 2}),
                                        .gpus = gpus_,
                                        .wait_limit = std::chrono::milliseconds(50)});
  stand_in_.machine().answers["cuStreamQuery"] = runtime::cuda::kNotReady;
  const base::Problem problem = problem_of(Code::E3102, [&] {
    gpus_[0]->attach();
    dynamic_cast<runtime::cuda::DeviceCommunicator&>(hasty->communicator(0)).wait(stream(0));
  });
  EXPECT_NE(problem.got.find("chip 1"), std::string::npos) << problem.got;
  EXPECT_NE(problem.next.find("nvidia-smi"), std::string::npos) << problem.next;
  EXPECT_TRUE(hasty->has_failed());
}

// ---- Algorithms ----

runtime::cuda::LtProblem small_product() {
  const runtime::cuda::LtMatrix matrix{.rows = 64, .columns = 64, .leading = 64};
  return {.a = matrix, .b = matrix, .d = matrix};
}

TEST(CudaPeerGpusTest, TheFirstGpuChoosesAlgorithmsForAll) {
  const StandInGpu stand_in;
  const Gpus gpus = open_two(stand_in);
  gpus[0]->attach();
  stand_in.products().word = 7;
  runtime::cuda::choose_algorithms(gpus[0]->toolbox(), {small_product()});
  stand_in.products().word = 9;  // what the second would choose
  gpus[1]->attach();
  runtime::cuda::take_algorithms(gpus[0]->toolbox(), gpus[1]->toolbox(), {small_product()});
  const runtime::cuda::LtChoice& taken = gpus[1]->toolbox().products().choices().at(to_string(small_product()));
  EXPECT_EQ(taken.algorithm.data[0], 7U);
  EXPECT_EQ(taken.origin, runtime::cuda::LtOrigin::shared);
}

TEST(CudaPeerGpusTest, AnAlgorithmThatAnotherGpuRefusesIsE3103) {
  const StandInGpu stand_in;
  const Gpus gpus = open_two(stand_in);
  gpus[0]->attach();
  stand_in.products().word = 7;
  runtime::cuda::choose_algorithms(gpus[0]->toolbox(), {small_product()});
  stand_in.products().word = 9;
  stand_in.products().refused = 7;
  gpus[1]->attach();
  const base::Problem problem = problem_of(
      Code::E3103, [&] { runtime::cuda::take_algorithms(gpus[0]->toolbox(), gpus[1]->toolbox(), {small_product()}); });
  EXPECT_TRUE(problem.got.starts_with("9 ")) << problem.got;
  EXPECT_TRUE(problem.wanted.starts_with("7 ")) << problem.wanted;
}

// ---- What the stand-in objects to ----

TEST(CudaPeerGpusTest, MemoryOfAnotherGpuNeedsAccess) {
  const StandInGpu stand_in;
  const Gpus gpus = open_two(stand_in);
  gpus[1]->attach();
  const std::unique_ptr<runtime::cuda::Borrowed> there = gpus[1]->toolbox().borrow(256);
  gpus[0]->attach();
  const std::unique_ptr<runtime::cuda::Borrowed> here = gpus[0]->toolbox().borrow(256);
  const auto copy = [&] {
    gpus[0]->attach();
    gpus[0]->driver().memcpy_async(here->address(), there->address(), 256, gpus[0]->toolbox().stream());
  };
  copy();
  EXPECT_EQ(stand_in.machine().breaches,
            std::vector<std::string>{"device 0 touches memory of device 1 without access"});
  for (int times = 0; times < 2; ++times) runtime::cuda::connect_peers(gpus);  // also where they are connected
  copy();
  EXPECT_EQ(stand_in.machine().breaches.size(), 1U);
}

TEST(CudaPeerGpusTest, WorkNeedsTheContextOfItsGpu) {
  const StandInGpu stand_in;
  const Gpus gpus = open_two(stand_in);
  gpus[0]->attach();
  const runtime::cuda::Function function = gpus[0]->toolbox().function("some", "one");
  const auto launch = [&] { runtime::cuda::launch(function, {.grid = {1}}, gpus[0]->toolbox().stream(), uint64_t{1}); };
  launch();
  EXPECT_EQ(stand_in.machine().breaches, std::vector<std::string>());
  gpus[1]->attach();
  launch();
  EXPECT_EQ(stand_in.machine().breaches.size(), 2U) << "of its stream and of its code";
}

TEST(CudaPeerGpusTest, ProductsNeedTheContextOfTheGpuOfTheirHandle) {
  const StandInGpu stand_in;
  const Gpus gpus = open_two(stand_in);
  gpus[0]->attach();
  gpus[0]->toolbox().products();
  gpus[1]->attach();
  runtime::cuda::choose_algorithms(gpus[0]->toolbox(), {small_product()});
  EXPECT_TRUE(std::ranges::count(stand_in.machine().breaches,
                                 "a handle of cuBLASLt of device 0 while the context of another is current") > 0);
}

TEST(CudaPeerGpusTest, StreamsWaitForEventsOfAnyGpuAndRecordTheirOwn) {
  const StandInGpu stand_in;
  const Gpus gpus = open_two(stand_in);
  const runtime::cuda::Driver& driver = gpus[0]->driver();
  gpus[0]->attach();
  const runtime::cuda::OwnedEvent event(driver);
  driver.event_record(event.get(), gpus[0]->toolbox().stream());
  driver.stream_wait_event(gpus[1]->toolbox().stream(), event.get(), 0);
  EXPECT_EQ(stand_in.machine().breaches, std::vector<std::string>());
  problem_of(Code::E3204, [&] { driver.event_record(event.get(), gpus[1]->toolbox().stream()); });
  EXPECT_EQ(stand_in.machine().breaches.size(), 1U);
}

}  // namespace
}  // namespace megacpp::testing_support
