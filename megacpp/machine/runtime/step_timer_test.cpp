// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/runtime/step_timer.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"
#include "tests/support/errors.h"

namespace megacpp::runtime {
namespace {

/// Its clock goes on by what tests say.
class TestQueue final : public DeviceQueue {
 public:
  void attach() override {}
  void wait() override { ++waits; }
  void replay(const std::function<void()>& enqueue) override { enqueue(); }
  void reserve_marks(size_t count) override { marks.resize(count); }
  void mark(size_t number) override { marks.at(number) = now; }
  double seconds_between(size_t from, size_t to) const override { return marks.at(to) - marks.at(from); }

  double now = 100;
  int waits = 0;
  std::vector<double> marks = {};
};

TEST(StepTimerTest, AQueueIsTimedByItsOwnClockAndWaitedForOnceAStep) {
  TestQueue queue;
  StepTimer timer(&queue, {.per_op = true, .trace_steps = 1, .trace_from = std::chrono::steady_clock::now()});
  const ir::Graph graph("g");
  const size_t dot = timer.op_number("micro_step", "dot"), copy = timer.op_number("micro_step", "copy");
  EXPECT_EQ(timer.op_number("micro_step", "dot"), dot);
  EXPECT_NE(timer.op_number("update", "dot"), dot) << "programs are told apart";
  timer.reserve(3, 2);
  EXPECT_TRUE(timer.is_on());
  for (int step = 0; step < 2; ++step) {
    timer.begin_step();
    timer.time({.part = &StepParts::arithmetic, .program = &graph, .node = 7, .op = dot}, [&] { queue.now += 2; });
    timer.time({.part = &StepParts::memory, .program = &graph, .node = 8, .op = copy}, [&] { queue.now += 1; });
    timer.time({.part = &StepParts::bubble}, [&] { queue.now += 4; });
    timer.end_step();
  }
  EXPECT_EQ(queue.waits, 4) << "before a step's first mark and behind its last";
  EXPECT_DOUBLE_EQ(timer.parts().arithmetic, 4);
  EXPECT_DOUBLE_EQ(timer.parts().memory, 2);
  EXPECT_DOUBLE_EQ(timer.parts().bubble, 8);
  EXPECT_DOUBLE_EQ(timer.op_seconds()[dot].seconds, 4);
  ASSERT_EQ(timer.trace().size(), 2U) << "of the first step alone";
  EXPECT_EQ(timer.trace()[1].node, 8U);
  EXPECT_NEAR(timer.trace()[1].end - timer.trace()[0].start, 3, 1e-9);
  timer.clear();
  EXPECT_EQ(timer.parts().seconds(), 0);
  EXPECT_EQ(timer.op_seconds()[dot].seconds, 0);
}

TEST(StepTimerTest, AStepWithMorePiecesThanReservedIsADefect) {
  TestQueue queue;
  StepTimer timer(&queue, {.per_op = true});
  timer.reserve(1, 1);
  timer.begin_step();
  timer.time({}, [] {});
  testing_support::problem_of(base::Code::E9001, [&] { timer.time({}, [] {}); });
}

TEST(StepTimerTest, AQueueThatNobodyProfilesIsNotWaitedFor) {
  TestQueue queue;
  StepTimer timer(&queue, {});
  timer.reserve(1, 1);
  EXPECT_FALSE(timer.is_on());
  timer.begin_step();
  bool ran = false;
  timer.time({}, [&] { ran = true; });
  timer.end_step();
  EXPECT_TRUE(ran);
  EXPECT_EQ(queue.waits, 0);
  EXPECT_TRUE(queue.marks.empty());
  EXPECT_EQ(timer.parts().seconds(), 0);
}

TEST(StepTimerTest, CallsThatAreDoneWhenTheyReturnAreTimedByTheHost) {
  StepTimer timer(nullptr, {});
  EXPECT_TRUE(timer.is_on());
  timer.begin_step();
  timer.time({.part = &StepParts::links}, [] {});
  timer.end_step();
  EXPECT_GE(timer.parts().links, 0);
  EXPECT_EQ(timer.parts().memory, 0);
}

}  // namespace
}  // namespace megacpp::runtime
