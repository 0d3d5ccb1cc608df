// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/step_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/core/ir/text.h"
#include "megacpp/program/memory/memory_plan.h"
#include "tests/support/plain_target.h"

namespace megacpp::memory {
namespace {

using testing_support::plain_target;

// Two letters: a value of A lives until the last node, one of B is there for a moment.
ir::Graph two_blocks() {
  return ir::parse(R"(graph "g" {
  %0 = input() {dtype="f32", name="w", shape=[4]} : f32[4] @block00.A #weight
  %1 = neg(%0) : f32[4] @block00.A
  %2 = iota() {dim=0, dtype="f32", shape=[16]} : f32[16] @block01.B
  %3 = slice(%2) {dim=0, size=4, start=0} : f32[4] @block01.B
  %4 = add(%1, %3) : f32[4] @block00.A
  output "y" = %4
})");
}

TEST(StepMemoryTest, EveryNodeCountsWhatIsAliveByLetter) {
  const ir::Graph graph = two_blocks();
  const std::vector<LetterMemory> curves = memory_along_step({&graph}, plain_target(), 100);
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[0].letter, "A");
  EXPECT_EQ(curves[0].bytes, (std::vector<int64_t>{16, 32, 32, 32, 48}));
  EXPECT_EQ(curves[1].letter, "B");
  EXPECT_EQ(curves[1].bytes[2], 64);
  EXPECT_EQ(curves[1].bytes[3], 80);
}

TEST(StepMemoryTest, OfManyNodesTheFullestOfEachPartIsKept) {
  const ir::Graph graph = two_blocks();
  const std::vector<LetterMemory> curves = memory_along_step({&graph, &graph}, plain_target(), 2);
  for (const LetterMemory& curve : curves) EXPECT_EQ(curve.bytes.size(), 2U);
  EXPECT_EQ(curves[0].bytes, (std::vector<int64_t>{32, 32}));
  EXPECT_EQ(curves[1].bytes, (std::vector<int64_t>{80, 80}));
}

TEST(StepMemoryTest, TheFullestPartIsThePeakOfThePlan) {
  const ir::Graph graph = two_blocks();
  const MemoryPlan plan = plan_memory({&graph}, plain_target());
  const std::vector<LetterMemory> curves = memory_along_step({&graph}, plain_target(), 3);
  int64_t most = 0;
  for (size_t part = 0; part < 3; ++part) {
    int64_t sum = 0;
    for (const LetterMemory& curve : curves) sum += curve.bytes[part];
    most = std::max(most, sum);
  }
  EXPECT_EQ(most, plan.total_bytes - plan.padding_bytes);
}

TEST(StepMemoryTest, NoProgramsHaveNoMemory) { EXPECT_TRUE(memory_along_step({}, plain_target(), 8).empty()); }

}  // namespace
}  // namespace megacpp::memory
