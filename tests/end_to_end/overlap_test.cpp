// SPDX-License-Identifier: Apache-2.0
// Training with collectives in buckets and in flight beside work: the losses of one chip, in exactly the planned bytes,
// without touching the heap.
#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/blocks/attention.h"
#include "megacpp/blocks/feed_forward.h"
#include "megacpp/compile/compile.h"
#include "megacpp/data/batches.h"
#include "megacpp/ops/collective_start.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/train/run_state.h"
#include "megacpp/train/train.h"
#include "tests/end_to_end/heap_count.h"

namespace megacpp {
namespace {

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
          {"fsdp", {.policy = "fsdp", .data_parallel = 2}, 18},
          {"fsdp_of_four", {.policy = "fsdp", .data_parallel = 4, .reshard_after_forward = "false"}, 10},
          {"far_ahead", {.policy = "fsdp", .data_parallel = 2, .prefetch = 3}, 18},
          {"tensor_parallel", {.tensor_parallel = 2}, 1},
          {"megatron", {.policy = "megatron", .data_parallel = 2, .bucket_bytes = 30000}, 1},
          {"ring", {.context_parallel = 2}, 2},
          {"stages", {.data_parallel = 2, .pipeline_parallel = 2}, 0}};
}

recipe::Recipe recipe_with(const recipe::Layout& layout) {
  recipe::Recipe recipe;
  recipe.name = "overlap";
  recipe.model = {.name = "overlap", .pattern = "AE", .depth = 4, .hidden = 32, .vocab = 256};
  recipe.model.config<blocks::Attention>() = {.heads = 4, .kv_heads = 2, .head_dim = 8};
  recipe.model.config<blocks::FeedForward>() = {.intermediate = 48};
  recipe.train = {.batch = 4, .sequence = 16, .micro_steps = 2, .steps = 3, .log_every = 1};
  recipe.layout = layout;
  return recipe;
}

// A compiled and loaded run of a fixed text.
class TrainingRun {
 public:
  explicit TrainingRun(const recipe::Layout& layout)
      : recipe_(recipe_with(layout)),
        compiled_(compile::compile_training(recipe_, runtime::cpu::cpu_target(1))),
        executable_(runtime::cpu::load(compiled_, {.threads = 1})) {
    corpus_.document_begins = {0};
    for (size_t i = 0; i < 4096; ++i) corpus_.bytes.push_back(static_cast<uint8_t>('a' + i * i % 19));
    train::RunState(compiled_, *executable_).initialise_weights(7);
  }

  std::vector<double> losses() {
    const data::Batches batches(
        corpus_, {.batch = recipe_.train.batch, .sequence = recipe_.train.sequence, .micro_steps = 2, .seed = 7});
    std::vector<double> losses;
    for (const train::StepReport& report : train::train(recipe_, compiled_, batches, *executable_))
      losses.push_back(report.loss);
    return losses;
  }

  const compile::Compiled& compiled() const { return compiled_; }
  runtime::Executable& executable() { return *executable_; }

 private:
  recipe::Recipe recipe_;
  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> executable_;
  data::TextCorpus corpus_;
};

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

TEST_P(OverlapTest, CollectivesAreUnderWayBesideWork) {
  const TrainingRun run(GetParam().layout);
  int64_t started = 0;
  for (const ir::Node& node : run.compiled().stages[0].programs[0].graph.nodes())
    started += node.op == ops::kStartOp ? 1 : 0;
  EXPECT_GE(started, GetParam().started);
}

}  // namespace
}  // namespace megacpp
