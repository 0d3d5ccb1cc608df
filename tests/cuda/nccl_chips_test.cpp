// SPDX-License-Identifier: Apache-2.0
// Processes with a chip each over NCCL, as threads on libraries that stand in for NVIDIA's: how they connect, what
// becomes of those that wait in vain, and that all of them compute alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cuda/device_communicator.h"
#include "megacpp/machine/cuda/device_world.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/memory/out_of_memory.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/cuda/stand_in_gpu.h"
#include "tests/support/environment.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::testing_support {
namespace {

using base::Code;
using runtime::cuda::DeviceCommunicator;
using std::chrono::milliseconds;

constexpr size_t kProcesses = 2;
constexpr milliseconds kPatient = std::chrono::seconds(30);

class NcclChipsTest : public ::testing::Test {
 protected:
  struct Machine {
    StandInGpu gpu = {};
    stand_in_nccl::State& nccl = gpu.add_nccl();
  };
  using Body = std::function<void(size_t process, DeviceCommunicator& communicator)>;

  /// What each process ends with; nothing where its body returns.
  using Endings = std::array<std::optional<base::Error>, kProcesses>;

  /// A process that fails tells the others, as a load does.
  Endings run(milliseconds limit, const Body& body) {
    Processes processes(kProcesses);
    Endings endings;
    processes.run([&](size_t process) {
      const std::shared_ptr<runtime::cuda::Gpu> gpu = machines_[process].gpu.open();
      gpu->attach();
      std::shared_ptr<collectives::World> control =
          processes.transport(process).make({.chips = kProcesses, .wait_limit = limit});
      const std::unique_ptr<collectives::World> world =
          runtime::cuda::make_device_world({.control = control, .gpus = {gpu}, .wait_limit = limit});
      const auto chip = static_cast<int64_t>(process);
      try {
        body(process, dynamic_cast<DeviceCommunicator&>(world->communicator(chip)));
      } catch (const base::Error& error) {
        endings[process] = error;
        world->abort(chip, error.what());
      }
    });
    return endings;
  }

  /// Until it has happened, or long enough.
  static void wait_for(const std::atomic<int>& count) {
    const auto end = std::chrono::steady_clock::now() + kPatient;
    while (count == 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  }

  const Variable host_ = {"NCCL_HOSTID", "as the user has it"};
  const Variable interface_ = {"NCCL_SOCKET_IFNAME", "lo"};
  std::array<Machine, kProcesses> machines_;
};

TEST_F(NcclChipsTest, GroupsAreConnectedWhenAskedForAndOnlyOnce) {
  const Endings endings = run(kPatient, [&](size_t process, DeviceCommunicator& communicator) {
    communicator.create_group({0, 1});
    communicator.create_group({static_cast<int64_t>(process)});
    EXPECT_EQ(machines_[process].nccl.joins.load(), 0) << "nobody waits while groups are made";
    for (int i = 0; i < 2; ++i) communicator.connect();
    EXPECT_EQ(machines_[process].nccl.joins.load(), 1) << "a group of one needs no communicator";
    EXPECT_EQ(machines_[process].nccl.ends.load(), 1) << "of the first messages";
    EXPECT_EQ(machines_[process].nccl.blocking.load(), 0);
  });
  for (const std::optional<base::Error>& ending : endings) EXPECT_FALSE(ending) << ending->what();
  for (const Machine& machine : machines_) EXPECT_EQ(machine.nccl.aborts.load(), 0);
}

TEST_F(NcclChipsTest, AProcessThatEndsWithoutACallLeavesNothingUnderWay) {
  const Endings endings = run(kPatient, [](size_t, DeviceCommunicator& communicator) {
    communicator.create_group({0, 1});
  });
  for (const std::optional<base::Error>& ending : endings) EXPECT_FALSE(ending) << ending->what();
}

// As one that is stopped: it has sent its id, and then nothing more.
TEST_F(NcclChipsTest, WhoConnectsToASilentChipNamesItAfterTheLimit) {
  machines_[0].nccl.async = stand_in_nccl::kInProgress;
  const auto start = std::chrono::steady_clock::now();
  std::barrier both_have_a_group(kProcesses);
  const Endings endings = run(milliseconds(500), [&](size_t process, DeviceCommunicator& communicator) {
    communicator.create_group({0, 1});
    both_have_a_group.arrive_and_wait();
    communicator.connect();
    if (process == 1) wait_for(machines_[0].nccl.aborts);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ASSERT_TRUE(endings[0]);
  EXPECT_EQ(endings[0]->code(), Code::E3102) << endings[0]->what();
  EXPECT_NE(endings[0]->problem().got.find("for chip 1"), std::string::npos) << endings[0]->what();
  EXPECT_NE(endings[0]->problem().where.find("connecting chips 0, 1"), std::string::npos) << endings[0]->what();
  EXPECT_EQ(machines_[0].nccl.aborts.load(), 1) << "what was begun is ended";
}

// One that has joined already.
TEST_F(NcclChipsTest, AChipThatFailsEndsTheConnectingOfOthers) {
  machines_[0].nccl.async = stand_in_nccl::kInProgress;
  const auto start = std::chrono::steady_clock::now();
  const Endings endings = run(kPatient, [&](size_t process, DeviceCommunicator& communicator) {
    communicator.create_group({0, 1});
    communicator.connect();
    ASSERT_EQ(process, 1U) << "it waits for as long as its peer is there";
    wait_for(machines_[0].nccl.joins);
    communicator.abort("out of paint");
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ASSERT_TRUE(endings[0]);
  EXPECT_EQ(endings[0]->code(), Code::E3101) << endings[0]->what();
  EXPECT_NE(std::string(endings[0]->what()).find("chip 1 failed: out of paint"), std::string::npos)
      << endings[0]->what();
  EXPECT_EQ(machines_[0].nccl.aborts.load(), 1) << "what was begun is ended";
}

// NCCL notices a closed socket before the control world has heard of the failure.
TEST_F(NcclChipsTest, WhoFailedIsSaidWhereNcclNoticesItFirst) {
  machines_[0].nccl.async = stand_in_nccl::kInProgress;
  const Endings endings = run(kPatient, [&](size_t process, DeviceCommunicator& communicator) {
    communicator.create_group({0, 1});
    communicator.connect();
    ASSERT_EQ(process, 1U);
    wait_for(machines_[0].nccl.joins);
    machines_[0].nccl.async = stand_in_nccl::kRemoteError;
    std::this_thread::sleep_for(milliseconds(200));
    communicator.abort("out of paint");
  });
  ASSERT_TRUE(endings[0]);
  EXPECT_EQ(endings[0]->code(), Code::E3101) << endings[0]->what();
  EXPECT_NE(std::string(endings[0]->what()).find("chip 1 failed: out of paint"), std::string::npos)
      << endings[0]->what();
}

TEST_F(NcclChipsTest, WhatOnlyNcclNoticesIsSaidInItsWords) {
  machines_[0].nccl.async = stand_in_nccl::kRemoteError;
  const Endings endings = run(kPatient, [&](size_t process, DeviceCommunicator& communicator) {
    communicator.create_group({0, 1});
    communicator.connect();
    if (process == 1) wait_for(machines_[0].nccl.aborts);
  });
  ASSERT_TRUE(endings[0]);
  EXPECT_EQ(endings[0]->code(), Code::E3104) << endings[0]->what();
  EXPECT_NE(endings[0]->problem().got.find("socket closed"), std::string::npos) << endings[0]->what();
}

TEST_F(NcclChipsTest, MemoryThatNcclLacksIsAnOutOfMemoryOfLoading) {
  machines_[1].nccl.async = 1;
  machines_[1].nccl.last_error = "Cuda failure 2 'out of memory'";
  std::optional<memory::OomFacts> facts;
  const Endings endings = run(kPatient, [&](size_t process, DeviceCommunicator& communicator) {
    communicator.create_group({0, 1});
    try {
      communicator.connect();
    } catch (const memory::OutOfMemory& error) {
      EXPECT_EQ(process, 1U);
      facts = error.facts();
      throw;
    }
  });
  ASSERT_TRUE(endings[1] && facts);
  EXPECT_EQ(endings[1]->code(), Code::E2003) << endings[1]->what();
  EXPECT_EQ(facts->cls, memory::OomClass::load);
  EXPECT_EQ(facts->chip, 1);
}

// ---- Loads ----

recipe::Recipe two_chips() {
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml",
                      std::vector<std::string>{"train.batch=2", "train.sequence=64", "layout.data_parallel=2"});
}

class NcclLoadTest : public NcclChipsTest {
 protected:
  using Loaded = std::function<void(size_t process, runtime::Executable& executable)>;

  /// All load the recipe, and go on with `loaded`.
  Endings load(const Loaded& loaded) {
    const recipe::Recipe recipe = two_chips();
    const plan::Plan plan = plan::make_plan(recipe);
    Processes processes(kProcesses);
    Endings endings;
    processes.run([&](size_t process) {
      collectives::Transport transport = processes.transport(process);
      transport.properties.name = "threads";  // chips of another process are not virtual ones of this GPU
      const compile::Compiled compiled =
          compile::compile_training(plan, runtime::cuda::cuda_target(kProcesses, transport));
      runtime::LoadOptions options = runtime::load_options(recipe::run_request(recipe), kProcesses);
      options.transport = transport;
      options.wait_limit = std::chrono::seconds(20);
      try {
        const std::unique_ptr<runtime::Executable> executable =
            runtime::cuda::load(compiled, options, machines_[process].gpu.parts());
        loaded(process, *executable);
      } catch (const base::Error& error) {
        endings[process] = error;
      }
    });
    return endings;
  }
};

TEST_F(NcclLoadTest, ProcessesComputeTheirProductsByTheAlgorithmsOfTheFirst) {
  machines_[0].gpu.products().word = 7;
  machines_[1].gpu.products().word = 9;
  std::array<std::string, kProcesses> repeats, from;
  const Endings endings = load([&](size_t process, runtime::Executable& executable) {
    repeats[process] = executable.repeats();
    for (const base::TimedPart& part : executable.load_parts())
      if (part.name == "products") from[process] = part.note;
  });
  for (const std::optional<base::Error>& ending : endings) EXPECT_FALSE(ending) << ending->what();
  EXPECT_NE(repeats[0].find("algorithms of products, here "), std::string::npos) << repeats[0];
  EXPECT_EQ(repeats[1], repeats[0]);
  EXPECT_EQ(from[0].find("shared"), std::string::npos) << from[0];
  EXPECT_NE(from[1].find("shared"), std::string::npos) << from[1];
}

TEST_F(NcclLoadTest, AnAlgorithmThatOneRefusesEndsAll) {
  machines_[0].gpu.products().word = 7;
  machines_[1].gpu.products().word = 9;
  machines_[1].gpu.products().refused = 7;
  const Endings endings = load([](size_t, runtime::Executable&) { ADD_FAILURE() << "they compute differently"; });
  for (const std::optional<base::Error>& ending : endings) {
    ASSERT_TRUE(ending);
    EXPECT_EQ(ending->code(), Code::E3103) << ending->what();
    EXPECT_EQ(ending->problem().where, "algorithms of products");
    EXPECT_NE(ending->problem().next.find("the same card"), std::string::npos) << ending->what();
    EXPECT_NE(ending->problem().got.find("process 1"), std::string::npos) << ending->what();
  }
}

TEST_F(NcclLoadTest, LoadingConnectsAndSaysWhatThatTook) {
  for (Machine& machine : machines_)
    machine.nccl.on_join = [&taken = machine.gpu.machine().taken_bytes] { taken += size_t{1} << 20; };
  const Endings endings = load([&](size_t process, runtime::Executable& executable) {
    const int joins = machines_[process].nccl.joins;
    EXPECT_GT(joins, 0);
    const std::vector<base::TimedPart> parts = executable.load_parts();
    EXPECT_EQ(parts.back().name, "nccl");
    const std::vector<std::string> notes = executable.load_notes();
    EXPECT_TRUE(std::ranges::any_of(notes, [&](const std::string& note) {
      return note.starts_with(std::to_string(joins) + ".00 MiB of these were taken while NCCL connected");
    })) << notes.front();
    for (int step = 0; step < 3; ++step) executable.run_step(runtime::StepMode::plain);
    EXPECT_EQ(machines_[process].nccl.joins.load(), joins) << "nothing is connected by a step";
  });
  for (const std::optional<base::Error>& ending : endings) EXPECT_FALSE(ending) << ending->what();
}

}  // namespace
}  // namespace megacpp::testing_support
