// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/pipeline_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/errors.h"

namespace megacpp::plan {
namespace {

using recipe::StageSchedule;
using testing_support::problem_of;

double bubble(StageSchedule kind, const PipelineShape& shape, const StepCosts& costs = {}) {
  const Simulation simulation = simulate(build_schedule(kind, shape), costs);
  EXPECT_TRUE(simulation.legal) << simulation.legal.reason();
  return simulation.bubble.empty() ? 1.0 : simulation.bubble[0];
}

std::vector<PipelineShape> many_shapes(bool with_chunks) {
  std::vector<PipelineShape> shapes;
  for (const int64_t stages : {1, 2, 3, 4, 5, 8})
    for (const int64_t micros : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 17, 32})
      for (const int64_t chunks : {1, 2, 3, 5})
        if (chunks == 1 || with_chunks) shapes.push_back({stages, micros, chunks});
  return shapes;
}

std::string name_of(const PipelineSchedule& schedule) {
  return std::string(base::text_of(schedule.kind)) + " " + std::to_string(schedule.shape.stages) + " stages " +
         std::to_string(schedule.shape.micros) + " micros " + std::to_string(schedule.shape.chunks) + " chunks";
}

std::vector<PipelineSchedule> many_schedules() {
  std::vector<PipelineSchedule> schedules;
  for (const auto& [kind, name, doc] : words_of(StageSchedule{}))
    for (const PipelineShape& shape : many_shapes(kind == StageSchedule::interleaved))
      schedules.push_back(build_schedule(kind, shape));
  return schedules;
}

TEST(PipelineScheduleTest, TextbookOrders) {
  EXPECT_EQ(to_text(build_schedule(StageSchedule::gpipe, {.stages = 2, .micros = 3})),
            "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2\n"
            "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2\n");
  EXPECT_EQ(to_text(build_schedule(StageSchedule::one_f_one_b, {.stages = 3, .micros = 4})),
            "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3\n"
            "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 B0.3\n"
            "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3\n");
  EXPECT_EQ(to_text(build_schedule(StageSchedule::zero_bubble, {.stages = 2, .micros = 3})),
            "F0.0 F0.1 I0.0 W0.0 F0.2 I0.1 W0.1 I0.2 W0.2\n"
            "F0.0 I0.0 F0.1 I0.1 W0.0 F0.2 I0.2 W0.1 W0.2\n");
  EXPECT_EQ(to_text(build_schedule(StageSchedule::interleaved, {.stages = 2, .micros = 4, .chunks = 2})),
            "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3\n"
            "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3\n");
}

TEST(PipelineScheduleTest, EveryScheduleIsCompleteAndEnds) {
  for (const PipelineSchedule& schedule : many_schedules()) {
    for (const StepCosts& costs : {StepCosts{}, StepCosts{3, 1, 5, 2}}) {
      const Simulation simulation = simulate(schedule, costs);
      ASSERT_TRUE(simulation.legal) << name_of(schedule) << ": " << simulation.legal.reason();
    }
  }
}

TEST(PipelineScheduleTest, BubblesAreThoseOfTheTextbooks) {
  for (const PipelineShape& shape : many_shapes(false)) {
    const double stages = static_cast<double>(shape.stages), micros = static_cast<double>(shape.micros);
    const double wanted = (stages - 1) / (micros + stages - 1);
    EXPECT_NEAR(bubble(StageSchedule::gpipe, shape), wanted, 1e-12);
    EXPECT_NEAR(bubble(StageSchedule::one_f_one_b, shape), wanted, 1e-12);
  }
}

// Each chunk costs 1 / chunks of a stage, so the same idle time is that much smaller.
TEST(PipelineScheduleTest, ChunksDivideTheBubble) {
  for (const int64_t stages : {2, 3, 4, 8})
    for (const int64_t groups : {1, 2, 4})
      for (const int64_t chunks : {1, 2, 3, 5}) {
        const double idle = static_cast<double>(stages - 1);
        EXPECT_NEAR(bubble(StageSchedule::interleaved, {stages, stages * groups, chunks}),
                    idle / (static_cast<double>(chunks * stages * groups) + idle), 1e-12);
      }
}

// A last group that is not full never takes longer than the full one it is cut from.
TEST(PipelineScheduleTest, RaggedGroupsAreNoSlowerThanFullOnes) {
  for (const PipelineShape& shape : many_shapes(true)) {
    PipelineShape full = shape;
    full.micros = (shape.micros + shape.stages - 1) / shape.stages * shape.stages;
    EXPECT_LE(simulate(build_schedule(StageSchedule::interleaved, shape)).makespan,
              simulate(build_schedule(StageSchedule::interleaved, full)).makespan);
  }
}

TEST(PipelineScheduleTest, ZeroBubbleIdlesAThirdOf1F1B) {
  for (const int64_t stages : {2, 3, 4, 8})
    for (const int64_t micros : {stages, 2 * stages, 2 * stages + 3}) {
      const Simulation split = simulate(build_schedule(StageSchedule::zero_bubble, {stages, micros}), {1, 2, 1, 1});
      ASSERT_TRUE(split.legal) << split.legal.reason();
      EXPECT_NEAR(split.makespan, static_cast<double>(3 * micros + stages - 1), 1e-12) << stages << " " << micros;
    }
  for (const PipelineShape& shape : many_shapes(false))
    if (shape.stages > 1) {
      EXPECT_LT(bubble(StageSchedule::zero_bubble, shape), bubble(StageSchedule::one_f_one_b, shape));
    }
}

TEST(PipelineScheduleTest, InFlightIsWhatEachScheduleIsKnownFor) {
  for (const PipelineShape& shape : many_shapes(false)) {
    const Simulation gpipe = simulate(build_schedule(StageSchedule::gpipe, shape)),
                     one = simulate(build_schedule(StageSchedule::one_f_one_b, shape)),
                     zero = simulate(build_schedule(StageSchedule::zero_bubble, shape));
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      const size_t s = static_cast<size_t>(stage);
      EXPECT_EQ(gpipe.in_flight[s][0], shape.micros);
      EXPECT_EQ(one.in_flight[s][0], std::min(shape.micros, shape.stages - stage));
      EXPECT_EQ(zero.in_flight[s][0], std::min(shape.micros, shape.stages));
    }
  }
}

// Slow and obvious: walks the steps with the set of slots in use.
TEST(PipelineScheduleTest, MicroBatchesInFlightNeverShareASlot) {
  for (const PipelineSchedule& schedule : many_schedules()) {
    const Simulation simulation = simulate(schedule);
    for (int64_t stage = 0; stage < schedule.shape.stages; ++stage) {
      const std::vector<Step>& steps = schedule.steps[static_cast<size_t>(stage)];
      std::set<std::pair<int64_t, int64_t>> in_use;  // chunk, slot
      for (auto step = steps.begin(); step != steps.end(); ++step) {
        const int64_t slot = simulation.slot_of(stage, step->chunk, step->micro);
        ASSERT_LT(slot, simulation.in_flight[static_cast<size_t>(stage)][static_cast<size_t>(step->chunk)]);
        const bool is_last = std::none_of(step + 1, steps.end(), [&](const Step& other) {
          return other.chunk == step->chunk && other.micro == step->micro;
        });
        if (step->kind == StepKind::forward) {
          ASSERT_TRUE(in_use.insert({step->chunk, slot}).second) << name_of(schedule);
        }
        if (is_last) in_use.erase({step->chunk, slot});
      }
      EXPECT_TRUE(in_use.empty());
    }
  }
}

TEST(PipelineScheduleTest, FlawedSchedulesAreRefusedWithTheStepAtFault) {
  const auto reason_after = [](const auto& spoil) {
    PipelineSchedule schedule = build_schedule(StageSchedule::one_f_one_b, {.stages = 2, .micros = 3});
    spoil(schedule.steps);
    const Simulation simulation = simulate(schedule);
    EXPECT_FALSE(simulation.legal);
    EXPECT_EQ(simulation.makespan, 0);
    return simulation.legal.reason();
  };
  using Steps = std::vector<std::vector<Step>>;
  EXPECT_EQ(reason_after([](Steps& steps) { steps[1].pop_back(); }),
            "stage 1: backward of chunk 0, micro 2 is missing");
  EXPECT_EQ(reason_after([](Steps& steps) {
              steps[0].push_back({StepKind::forward, 0, 1});
            }),
            "stage 0: forward of chunk 0, micro 1 is repeated");
  EXPECT_EQ(reason_after([](Steps& steps) {
              steps[0].push_back({StepKind::backward_weight, 0, 1});
            }),
            "stage 0: backward_weight of chunk 0, micro 1 is repeated");
  EXPECT_EQ(reason_after([](Steps& steps) { steps[1].back().kind = StepKind::backward_input; }),
            "stage 1: backward_weight of chunk 0, micro 2 is missing");
  EXPECT_EQ(reason_after([](Steps& steps) { steps[0][0].micro = 3; }),
            "stage 0: forward of chunk 0, micro 3 does not exist");
  EXPECT_EQ(reason_after([](Steps& steps) { std::swap(steps[1][0], steps[1][1]); }),
            "stage 0: backward of chunk 0, micro 0 waits forever; "
            "stage 1: backward of chunk 0, micro 0 waits forever");
}

TEST(PipelineScheduleTest, ImpossibleShapesAreUserErrors) {
  using base::Code;
  EXPECT_EQ(problem_of(Code::E1003, [] { build_schedule(StageSchedule::gpipe, {.stages = 2, .micros = 0}); }).wanted,
            "at least 1 of each");
  EXPECT_EQ(problem_of(Code::E1003,
                       [] { build_schedule(StageSchedule::one_f_one_b, {.stages = 2, .micros = 2, .chunks = 2}); })
                .got,
            "2 chunks per stage");
}

}  // namespace
}  // namespace megacpp::plan
