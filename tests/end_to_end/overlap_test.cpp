// SPDX-License-Identifier: Apache-2.0
// Training with collectives in buckets and in flight beside work: the losses of one chip, in exactly the planned bytes,
// without touching the heap.
#include <gtest/gtest.h>

#include <atomic>

#include "megacpp/program/ops/collective_start.h"
#include "megacpp/run/launch/training.h"
#include "tests/end_to_end/heap_count.h"
#include "tests/end_to_end/training_run.h"

namespace megacpp {
namespace {

using testing_support::TrainingRun;

struct OverlapCase {
  std::string name;
  recipe::Layout layout;
  int64_t started;  // collectives of the micro-step that are in flight while something computes, at least
};

void PrintTo(const OverlapCase& c, std::ostream* out) { *out << c.name; }

std::vector<OverlapCase> overlap_cases() {
  return {{"zero_0", {.data_parallel = 2, .zero = 0}, 1},
          {"zero_2", {.data_parallel = 2, .zero = 2}, 20},
          {"zero_3", {.data_parallel = 2, .zero = 3}, 58},
          {"no_prefetch", {.data_parallel = 2, .zero = 3, .prefetch = 0}, 20},
          {"fsdp", {.policy = recipe::Policy::fsdp, .data_parallel = 2}, 18},
          {"fsdp_of_four",
           {.policy = recipe::Policy::fsdp,
            .data_parallel = 4,
            .reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::none}},
           10},
          {"far_ahead", {.policy = recipe::Policy::fsdp, .data_parallel = 2, .prefetch = 3}, 18},
          {"tensor_parallel", {.tensor_parallel = 2}, 1},
          {"megatron", {.policy = recipe::Policy::megatron, .data_parallel = 2, .bucket_bytes = 30000}, 1},
          {"ring", {.context_parallel = 2}, 2},
          {"stages", {.data_parallel = 2, .pipeline_parallel = 2}, 0}};
}

class OverlapTest : public testing::TestWithParam<OverlapCase> {};
INSTANTIATE_TEST_SUITE_P(Layouts, OverlapTest, testing::ValuesIn(overlap_cases()),
                         [](const testing::TestParamInfo<OverlapCase>& info) { return info.param.name; });

TEST_P(OverlapTest, LossesAreThoseOfOneChipInThePlannedBytes) {
  const std::vector<double> wanted = TrainingRun({}).losses();
  TrainingRun run(GetParam().layout);
  const std::vector<double> got = run.losses();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t step = 0; step < got.size(); ++step) EXPECT_NEAR(got[step], wanted[step], 1e-4 * wanted[step]);
  for (int64_t chip = 0; chip < run.executable().chips(); ++chip) {
    const runtime::ChipMemory memory = run.executable().memory(chip);
    EXPECT_EQ(memory.measured_peak_bytes, memory.planned_peak_bytes) << "chip " << chip;
  }
}

TEST_P(OverlapTest, RunningNeverAllocates) {
  TrainingRun run(GetParam().layout);
  run.losses();
  const int64_t before = testing_support::heap_allocations();
  run.executable().run_step(runtime::StepMode::plain);
  EXPECT_EQ(testing_support::heap_allocations(), before);
}

// A whole launch: drawing batches, handing every chip its part, and what is asked between steps included.
TEST_P(OverlapTest, BetweenLogsTrainingNeverAllocates) {
  recipe::Recipe recipe = testing_support::small_training_recipe(GetParam().layout);
  recipe.train.steps = 6;
  recipe.train.log_every = 5;
  recipe.train.threads = 1;
  launch::Launch launch(recipe, {.none = true});
  launch.prepare();
  // Asked before every step and, on the threads of the chips, before every micro-step: as often in each step.
  std::vector<int64_t> allocations(4096);
  std::atomic<size_t> calls = 0;
  launch::run_training(launch, testing_support::small_corpus(), {.should_stop = [&] {
                         allocations.at(calls++) = testing_support::heap_allocations();
                         return false;
                       }});
  const size_t calls_per_step = calls / 6;
  ASSERT_GE(calls_per_step, 1U);
  EXPECT_EQ(allocations[5 * calls_per_step], allocations[2 * calls_per_step]) << "steps 2 to 4";
}

TEST_P(OverlapTest, ThePartsOfAStepAreWithinIt) {
  TrainingRun run(GetParam().layout);
  EXPECT_FALSE(run.executable().step_parts()) << "before a second step";
  run.losses();
  const runtime::StepParts parts = run.executable().step_parts().value();
  EXPECT_GE(parts.other, 0) << "no chip is busy for longer than the step";
  EXPECT_GT(parts.memory, 0);
  if (GetParam().layout.pipeline_parallel > 1) {
    EXPECT_GT(parts.bubble, 0);
  } else {
    EXPECT_EQ(parts.bubble, 0) << "nothing is sent between stages";
  }
}

TEST_P(OverlapTest, CollectivesAreUnderWayBesideWork) {
  const TrainingRun run(GetParam().layout);
  int64_t started = 0;
  for (const ir::Node& node : run.compiled().stages[0].programs[0].graph.nodes())
    started += node.op == ops::kStartOp ? 1 : 0;
  EXPECT_GE(started, GetParam().started);
}

}  // namespace
}  // namespace megacpp
