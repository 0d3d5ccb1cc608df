// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/pipeline_time.h"

#include <gtest/gtest.h>

namespace megacpp::fit {
namespace {

using plan::PipelineShape;
using plan::StepCosts;
using recipe::StageSchedule;

double seconds(StageSchedule schedule, const PipelineShape& shape, const StepCosts& costs = {}) {
  return pipeline_seconds(even_work(plan::build_schedule(schedule, shape), costs));
}

// Four stages, eight micro-batches, 1 s forward and 2 s backward: 24 s of work each.
TEST(PipelineTimeTest, SchedulesTakeWhatTheyAreKnownFor) {
  EXPECT_DOUBLE_EQ(seconds(StageSchedule::gpipe, {4, 8}), 24 + 3 * 3);
  EXPECT_DOUBLE_EQ(seconds(StageSchedule::one_f_one_b, {4, 8}), 24 + 3 * 3);
  EXPECT_DOUBLE_EQ(seconds(StageSchedule::interleaved, {4, 8, 2}, {.forward = 0.5, .backward = 1}), 24 + 3 * 1.5)
      << "half chunks";
  EXPECT_DOUBLE_EQ(seconds(StageSchedule::zero_bubble, {4, 8}), 24 + 3 * 1)
      << "what is left is filled with weight parts";
  EXPECT_DOUBLE_EQ(seconds(StageSchedule::one_f_one_b, {1, 8}), 24) << "no pipeline, no bubble";
}

// Against the simulation of schedules that finds out whether they are legal.
TEST(PipelineTimeTest, AgreesWithTheSchedule) {
  const StepCosts costs{.forward = 1, .backward = 2.5, .backward_input = 1.25, .backward_weight = 0.75};
  for (const int64_t stages : {2, 3, 4, 8})
    for (const int64_t micros : {1, 2, 7, 16})
      for (const auto& [schedule_kind, name, doc] : words_of(StageSchedule{}))
        for (const int64_t chunks : {1, 2, 3}) {
          if (chunks > 1 && schedule_kind != StageSchedule::interleaved) continue;
          const plan::PipelineSchedule schedule = plan::build_schedule(schedule_kind, {stages, micros, chunks});
          const plan::Simulation make_estimate = plan::simulate(schedule, costs);
          const std::vector<StageWork> work = even_work(schedule, costs);
          const double seconds = pipeline_seconds(work);
          EXPECT_NEAR(seconds, make_estimate.makespan, 1e-9) << plan::to_text(schedule);
          EXPECT_NEAR(1 - work[0].busy() / seconds, make_estimate.bubble[0], 1e-9);
        }
}

TEST(PipelineTimeTest, AReceiverWaitsForTheWireAndTheSenderDoesNot) {
  const StageWork sender{.programs = {{.seconds = 1}, {.seconds = 0, .sent_after = 0.5, .sends = {7}}, {.seconds = 3}},
                         .runs = {{0, 0}, {1, 0}, {2, 0}}};
  const StageWork receiver{.programs = {{.seconds = 0, .receives = {7}}, {.seconds = 2}}, .runs = {{0, 0}, {1, 0}}};
  EXPECT_DOUBLE_EQ(pipeline_seconds({sender}), 4);
  EXPECT_DOUBLE_EQ(pipeline_seconds({sender, receiver}), 4) << "1 + 0.5 + 2 is less";
  EXPECT_DOUBLE_EQ(pipeline_seconds({receiver, sender}), 4) << "whichever is listed first";
  const StageWork busier{.programs = {{.seconds = 0, .receives = {7}}, {.seconds = 4}}, .runs = {{0, 0}, {1, 0}}};
  EXPECT_DOUBLE_EQ(pipeline_seconds({sender, busier}), 1 + 0.5 + 4);
}

}  // namespace
}  // namespace megacpp::fit
