// SPDX-License-Identifier: Apache-2.0
#include "megacpp/runtime/host_use.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"

namespace megacpp::runtime {
namespace {

HostUse use_on(const std::string& host, int64_t offloaded, int64_t snapshot, int64_t free) {
  return {.host = host, .offloaded_bytes = offloaded, .snapshot_bytes = snapshot, .free_bytes = free};
}

TEST(HostUseTest, ProcessesOfAHostAreCountedTogether) {
  EXPECT_FALSE(host_misfit({use_on("a", 60, 0, 100), use_on("b", 60, 0, 100)})) << "a host each";
  const auto misfit = host_misfit({use_on("a", 60, 0, 100), use_on("a", 60, 0, 101)});
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->host, "a");
  EXPECT_EQ(misfit->fit.needed_bytes(), 120);
  EXPECT_EQ(misfit->fit.limit_bytes, 100) << "the least that one of them has seen";
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
