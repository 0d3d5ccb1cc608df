// SPDX-License-Identifier: Apache-2.0
// Clients of a plugin in two processes become one mesh, or both end with what stands against it; what a client asks for
// and has.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/xla/pjrt/client.h"
#include "megacpp/machine/xla/pjrt/process_part.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/parse.h"
#include "tests/support/environment.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::runtime::pjrt {
namespace {

using base::Code;
using plugins::PluginKind;
using std::chrono::seconds;

class JoinedClientsTest : public testing::Test {
 protected:
  /// What each process comes to: the ids of the devices of all chips, or its error.
  struct Outcome {
    std::vector<int64_t> ids = {};
    std::vector<int64_t> own = {};  // of the devices of this process
    base::Error error = {Code::E9001, {}};
  };

  static Outcome join(const std::shared_ptr<collectives::World>& world, PluginKind kind) {
    Outcome outcome;
    std::shared_ptr<collectives::KeyValues> store;
    try {
      const ProcessPart part = join_processes(world, kind, seconds(60), [] { return std::vector<std::string>(); });
      store = part.store;
      const Client client(Plugin::load(STAND_IN_CUDA_PROCESSES_FILE), request_for(part, kind));
      outcome.ids = device_ids(client, part, seconds(60));
      for (const DeviceDescription& device : client.devices()) outcome.own.push_back(device.id);
    } catch (const base::Error& error) {
      world->abort(world->local_chips().front(), error.what());
      outcome.error = error;
    }
    return outcome;
  }

  /// Four chips in two processes that cannot tell how many GPUs they see.
  static std::vector<Outcome> join_all(PluginKind kind = PluginKind::cuda) {
    testing_support::Processes processes(2);
    std::vector<Outcome> outcomes(2);
    processes.run([&](size_t process) {
      const std::shared_ptr<collectives::World> world =
          processes.transport(process).make({.chips = 4, .wait_limit = seconds(60)});
      outcomes[process] = join(world, kind);
    });
    return outcomes;
  }
};

TEST_F(JoinedClientsTest, TheirDevicesAreOneMesh) {
  const std::vector<Outcome> outcomes = join_all();
  for (const Outcome& outcome : outcomes)
    EXPECT_EQ(outcome.ids, (std::vector<int64_t>{0, 1, 2, 3})) << outcome.error.what();
  EXPECT_EQ(outcomes[0].own, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(outcomes[1].own, (std::vector<int64_t>{2, 3}));
}

TEST_F(JoinedClientsTest, AClientThatWaitsInVainSaysForWhat) {
  const testing_support::Variable behaviour("STAND_IN_CUDA", "silent");
  bool is_said = false;
  for (const Outcome& outcome : join_all()) {
    EXPECT_TRUE(outcome.ids.empty());
    is_said |= outcome.error.problem().got.find("waited for 'devices of 1', which no process has put within 100 ms") !=
               std::string::npos;
  }
  EXPECT_TRUE(is_said);
}

// The other would wait a minute for it.
TEST_F(JoinedClientsTest, AnErrorInOneProcessEndsTheOther) {
  const testing_support::Variable behaviour("STAND_IN_CUDA", "broken");
  const std::vector<Outcome> outcomes = join_all();
  EXPECT_NE(outcomes[1].error.problem().got.find("no kernel image"), std::string::npos) << outcomes[1].error.what();
  EXPECT_NE(outcomes[0].error.problem().got.find("no kernel image"), std::string::npos) << outcomes[0].error.what();
}

TEST_F(JoinedClientsTest, APluginThatJoinsNothingIsRefused) {
  const testing_support::Variable behaviour("STAND_IN_CUDA", "alone");
  for (const Outcome& outcome : join_all()) {
    EXPECT_EQ(outcome.error.code(), Code::E1505) << outcome.error.what();
    EXPECT_NE(outcome.error.problem().next.find("node_id and num_nodes"), std::string::npos);
  }
}

TEST_F(JoinedClientsTest, AKindThatCannotIsRefusedBeforeItIsLoaded) {
  for (const Outcome& outcome : join_all(PluginKind::cpu)) {
    EXPECT_EQ(outcome.error.code(), Code::E1505) << outcome.error.what();
    EXPECT_NE(outcome.error.problem().got.find("the cpu plugin"), std::string::npos) << outcome.error.what();
  }
}

TEST(ProcessPartTest, OneProcessAsksForNothingElse) {
  const ProcessPart part{.chips = {{0, 1}}};
  EXPECT_TRUE(request_for(part, PluginKind::tpu).options.empty());
  EXPECT_EQ(request_for(part, PluginKind::cpu).options, (std::vector<NamedValue>{{"cpu_device_count", int64_t{2}}}));
}

// What plans count on too (runtime::xla::pool_share); of a GPU that several processes use, each has its part.
TEST(ProcessPartTest, OnGpusThePoolIsAskedFor) {
  ProcessPart part{.chips = {{0}}};
  EXPECT_EQ(request_for(part, PluginKind::cuda).options, (std::vector<NamedValue>{{"memory_fraction", 0.9F}}));
  part.gpus.sharers = 3;
  EXPECT_EQ(request_for(part, PluginKind::cuda).options, (std::vector<NamedValue>{{"memory_fraction", 0.3F}}));
}

// A run beside it may need the rest of the GPU.
TEST(ProcessPartTest, OnGpusWhatOnlyCompilesTakesNoPoolAtOnce) {
  const ProcessPart part{.chips = {{0}}};
  EXPECT_EQ(request_to_compile(part, PluginKind::cuda).options,
            (std::vector<NamedValue>{{"memory_fraction", 0.9F}, {"preallocate", false}}));
  EXPECT_TRUE(request_to_compile(part, PluginKind::tpu).options.empty());
  EXPECT_EQ(request_to_compile(part, PluginKind::cpu).options, request_for(part, PluginKind::cpu).options);
}

// What it has of a device is less than a device has, whatever the recipe's limit says.
TEST(ClientLimitTest, AProgramThatNeedsMoreThanItsClientHasIsRefusedWhenItIsLoaded) {
  for (const std::string own : {"0", "3GiB"}) {
    const recipe::Recipe recipe = recipe::load(
        std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
        std::vector<std::string>{"backend=xla", std::string("xla.plugin=") + STAND_IN_CUDA_PROCESSES_FILE,
                                 "xla.cache=off", "model.depth=2", "train.sequence=64", "hardware.limit=" + own});
    const Backend& xla = backend_named("xla");
    const compile::Compiled compiled = compile::compile_training(
        plan::make_plan(recipe), xla.target(recipe::run_request(recipe), mesh_here(recipe::run_request(recipe), 1)));
    const auto load_it = [&] {
      return load_on(xla, recipe::run_request(recipe), compiled, load_options(recipe::run_request(recipe), 1));
    };
    EXPECT_EQ(load_it()->memory(0).limit_bytes, int64_t{1} << 30);
    const testing_support::Variable behaviour("STAND_IN_CUDA", "large");
    const base::Problem problem = testing_support::problem_of(Code::E2001, load_it);
    EXPECT_NE(problem.got.find("2.00 GiB"), std::string::npos) << problem.got;
    EXPECT_NE(problem.wanted.find("1.00 GiB"), std::string::npos) << problem.wanted;
  }
}

TEST(ProcessPartTest, DevicesFollowTheNumbersOfThePlugin) {
  std::vector<DeviceDescription> all;
  for (const auto& [id, process] : {std::pair(3, 1), std::pair(0, 0), std::pair(1, 0), std::pair(2, 1)}) {
    DeviceDescription device;
    device.id = id;
    device.process = process;
    all.push_back(device);
  }
  const std::vector<std::vector<int64_t>> chips = {{0, 2}, {1, 3}};
  EXPECT_EQ(ids_by_chip({.all = all, .chips = chips, .numbers = {1, 0}}, "p.so"), (std::vector<int64_t>{2, 0, 3, 1}));
  testing_support::problem_of(Code::E1505, [&] {
    ids_by_chip({.all = all, .chips = chips, .numbers = {0, 0}}, "p.so");
  });
  const base::Problem few = testing_support::problem_of(Code::E1504, [&] {
    ids_by_chip({.all = all, .chips = chips, .numbers = {0, 7}}, "p.so");
  });
  EXPECT_EQ(few.got, "0 devices of process 1");
}

}  // namespace
}  // namespace megacpp::runtime::pjrt
