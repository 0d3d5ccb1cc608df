// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/ladder_window.h"

#include <gtest/gtest.h>

#include <vector>

#include "megacpp/hardware/hw/slice.h"

namespace megacpp::launch {
namespace {

memory::OomFacts failure(memory::OomClass cls) { return {.cls = cls, .phase = "step"}; }
const memory::OomFacts kAllocation = failure(memory::OomClass::runtime);

/// After steps that ended with so many compilations since the start.
LadderWindow after_steps(const std::vector<int64_t>& compiles) {
  LadderWindow window(HostMemory::shared);
  window.begin_steps();
  for (const int64_t count : compiles) window.end_step(count);
  return window;
}

TEST(LadderWindowTest, StartUpAndStepZeroAreInIt) {
  LadderWindow window(HostMemory::shared);
  EXPECT_EQ(window.phase(), LadderWindow::Phase::start_up);
  for (const auto cls :
       {memory::OomClass::compile, memory::OomClass::load, memory::OomClass::runtime, memory::OomClass::host})
    EXPECT_TRUE(window.contains(failure(cls), 0));
  window.begin_steps();
  EXPECT_TRUE(window.contains(kAllocation, 1));
  EXPECT_TRUE(window.contains(kAllocation, 2)) << "a second compilation in step 0";
}

// The snapshot of checkpoints, pinned memory, a plugin's staging: whatever a rung changes on the chips, they stay.
TEST(LadderWindowTest, AHostBesideItsChipsIsNeverInIt) {
  LadderWindow window(HostMemory::apart);
  const memory::OomFacts host = failure(memory::OomClass::host);
  EXPECT_FALSE(window.contains(host, 0)) << "while it starts";
  EXPECT_TRUE(window.contains(failure(memory::OomClass::load), 0));
  window.begin_steps();
  EXPECT_FALSE(window.contains(host, 1)) << "in step 0, and when that has ended";
  EXPECT_TRUE(window.contains(kAllocation, 1));
  window.end_step(1);
  EXPECT_FALSE(window.contains(host, 2));
}

TEST(LadderWindowTest, VirtualChipsAloneAreInTheMemoryOfTheirHost) {
  hw::Chip host;
  host.kind = hw::ChipKind::host;
  EXPECT_EQ(host_memory_of(host), HostMemory::shared);
  for (const char* const device : {"h200:1", "v6e:2x2"})
    EXPECT_EQ(host_memory_of(hw::parse_target(device).chip), HostMemory::apart) << device;
}

TEST(LadderWindowTest, AStepThatDoesNotCompileIsBehindIt) {
  EXPECT_FALSE(after_steps({1}).contains(kAllocation, 1)) << "step 1";
  EXPECT_FALSE(after_steps({1, 1}).contains(kAllocation, 1)) << "step 2";
  EXPECT_FALSE(after_steps({0}).contains(failure(memory::OomClass::host), 0)) << "a backend that counts nothing";
}

TEST(LadderWindowTest, TheStepOfTheFirstCompilationAfterStepZeroIsInIt) {
  const LadderWindow window = after_steps({1});
  EXPECT_EQ(window.phase(), LadderWindow::Phase::steady);
  EXPECT_TRUE(window.contains(kAllocation, 2));
  EXPECT_TRUE(window.contains(kAllocation, 3)) << "compiled twice in that step";
  EXPECT_TRUE(window.contains(failure(memory::OomClass::compile), 1)) << "the compiler itself ran out";
  EXPECT_TRUE(after_steps({1, 1, 1}).contains(kAllocation, 2)) << "however late";
}

TEST(LadderWindowTest, OnceThatStepHasEndedTheWindowIsClosed) {
  const LadderWindow window = after_steps({1, 2});
  EXPECT_EQ(window.phase(), LadderWindow::Phase::closed);
  EXPECT_FALSE(window.contains(kAllocation, 2));
  EXPECT_FALSE(window.contains(kAllocation, 3)) << "the second compilation after step 0";
  EXPECT_FALSE(window.contains(failure(memory::OomClass::compile), 2));
}

}  // namespace
}  // namespace megacpp::launch
