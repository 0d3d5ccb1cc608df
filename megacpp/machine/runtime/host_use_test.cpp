// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/host_use.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::runtime {
namespace {

HostUse use_on(const std::string& host, int64_t offloaded, int64_t snapshot, int64_t free) {
  return {.machine = "boot of " + host,
          .host = host,
          .offloaded_bytes = offloaded,
          .snapshot_bytes = snapshot,
          .free_bytes = free};
}

TEST(HostUseTest, ProcessesOfAHostAreCountedTogether) {
  EXPECT_FALSE(host_misfit({use_on("a", 60, 0, 100), use_on("b", 60, 0, 100)})) << "a host each";
  const auto misfit = host_misfit({use_on("a", 60, 0, 100), use_on("a", 60, 0, 101)});
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->host, "a");
  EXPECT_EQ(misfit->fit.needed_bytes(), 120);
  EXPECT_EQ(misfit->fit.limit_bytes, 100) << "the least that one of them has seen";
}

TEST(HostUseTest, ActivationsAreCountedTogetherToo) {
  HostUse one = use_on("a", 60, 0, 100), other = use_on("a", 60, 0, 100);
  one.activation_bytes = 20;
  other.activation_bytes = 30;
  const auto misfit = host_misfit({one, other});
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->fit.activation_bytes, 50);
  EXPECT_EQ(misfit->fit.state_bytes(), 70);
}

TEST(HostUseTest, MachinesOfOneNameAreSeveral) {
  HostUse other = use_on("localhost", 60, 0, 100);
  other.machine = "another boot";
  EXPECT_FALSE(host_misfit({use_on("localhost", 60, 0, 100), other}));
  other.free_bytes = 59;
  const auto misfit = host_misfit({use_on("localhost", 60, 0, 100), other});
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->host, "localhost");
  EXPECT_EQ(misfit->fit.needed_bytes(), 60);
}

TEST(HostUseTest, OwnUseIsThatOfTheLocalChips) {
  compile::Compiled compiled;
  compiled.mesh = ir::Mesh({{"stage", 2}, {"data", 2}});
  compiled.stages.resize(2);
  compiled.stages[0].memory.away[ir::Tier::host] = {.bytes = 5};
  compiled.stages[1].memory.away[ir::Tier::host] = {.bytes = 7, .activation_bytes = 6};
  testing_support::Processes processes(2);
  processes.run([&](size_t process) {
    const auto world = processes.transport(process).make({.chips = 4, .wait_limit = std::chrono::seconds(60)});
    LoadOptions options;
    EXPECT_EQ(own_host_use(compiled, *world, options).snapshot_bytes, 0) << "nothing is saved";
    options.snapshot_bytes = [](const std::vector<int64_t>& chips) { return 100 * std::ssize(chips); };
    const HostUse use = own_host_use(compiled, *world, options);
    EXPECT_EQ(use.offloaded_bytes, process == 0 ? 10 : 14);
    EXPECT_EQ(use.activation_bytes, process == 0 ? 0 : 12);
    EXPECT_EQ(use.snapshot_bytes, 200);
    EXPECT_EQ(use.chip, process == 0 ? 0 : 2);
    EXPECT_GT(use.free_bytes, 0);
    EXPECT_NE(use.machine, "");
  });
}

TEST(HostUseTest, TheSnapshotIsInTheSameMemory) {
  EXPECT_FALSE(host_misfit({use_on("a", 60, 40, 100)})) << "the last byte";
  EXPECT_TRUE(host_misfit({use_on("a", 60, 41, 100)}));
  EXPECT_TRUE(host_misfit({use_on("a", 0, 101, 100)})) << "without offloaded state too";
}

TEST(HostUseTest, OfSeveralHostsTheOneThatLacksMostIsNamed) {
  const auto misfit = host_misfit({use_on("a", 110, 0, 100), use_on("b", 150, 0, 100), use_on("c", 1, 0, 100)});
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->host, "b");
}

TEST(HostUseTest, TextHasAll) {
  HostUse use = use_on("node 7", 1, 2, 3);
  use.chip = 4;
  use.activation_bytes = 5;
  EXPECT_EQ(host_use_of(to_text(use)), use);
}

// The host of the last two processes has too little: the first one ends alike, and none waits for another.
TEST(HostUseTest, AllProcessesEndWithTheHostThatLacksMemory) {
  testing_support::Processes processes(3);
  std::vector<base::Error> errors(3, base::Error(base::Code::E9001, {}));
  processes.run([&](size_t process) {
    const auto world = processes.transport(process).make({.chips = 3, .wait_limit = std::chrono::seconds(60)});
    errors[process] =
        testing_support::error_of([&] { require_host_memory(*world, use_on(process == 0 ? "a" : "b", 60, 0, 100)); });
  });
  for (const base::Error& error : errors) {
    EXPECT_EQ(error.code(), base::Code::E2001);
    EXPECT_EQ(error.problem().where, "host b");
    EXPECT_NE(error.problem().got.find("120 bytes"), std::string::npos) << error.problem().got;
  }
}

}  // namespace
}  // namespace megacpp::runtime
