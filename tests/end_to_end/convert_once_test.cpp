// SPDX-License-Identifier: Apache-2.0
// Trainings in bf16 whose micro-steps read copies of weights, against those that convert weights each time: the same
// losses to the bit, and memory as it was planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"
#include "tests/end_to_end/training_run.h"

namespace megacpp::train {
namespace {

// All four families: products, experts, convolutions, and weights that elementwise work reads. With fewer blocks the
// copies of the last, which is through when most bytes are alive, would be too much.
recipe::Recipe hybrid_in_bf16(const std::vector<std::string>& settings) {
  std::vector<std::string> all = {
      "model.pattern=AEMR", "model.depth=8",     "train.batch=4",   "train.sequence=64",    "train.micro_steps=2",
      "train.steps=3",      "train.log_every=1", "train.threads=1", "train.precision=bf16", "optimizer.warmup_steps=1"};
  all.insert(all.end(), settings.begin(), settings.end());
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", all);
}

std::vector<double> losses_of(const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  const data::TextCorpus corpus = testing_support::small_corpus();
  const data::Batches batches(corpus, batch_options(recipe));
  const auto run = runtime::cpu::load(compiled, {.threads = 1});
  RunState(compiled, *run).initialise_weights(7);
  std::vector<double> losses;
  for (const StepReport& report : train({recipe, compiled, batches, *run})) losses.push_back(report.loss.value());
  for (const int64_t chip : run->local_chips())
    EXPECT_EQ(run->memory(chip).measured_peak_bytes, compiled.programs_of(chip).memory.total_bytes) << "chip " << chip;
  return losses;
}

struct ConvertRow {
  std::vector<std::string> settings;
  bool has_copies = true;
};

class ConvertOnceTrainingTest : public testing::TestWithParam<ConvertRow> {};
INSTANTIATE_TEST_SUITE_P(Layouts, ConvertOnceTrainingTest,
                         testing::Values(ConvertRow{}, ConvertRow{{"train.recompute=selective"}},
                                         ConvertRow{{"model.tie_embeddings=true", "train.micro_steps=3"}},
                                         ConvertRow{{"layout.data_parallel=2", "layout.zero=3"}, false},
                                         ConvertRow{
                                             {"layout.data_parallel=2", "layout.tensor_parallel=2", "layout.zero=2"}},
                                         ConvertRow{{"layout.pipeline_parallel=2"}},
                                         ConvertRow{{"layout.pipeline_parallel=2", "layout.schedule=zero_bubble"}},
                                         ConvertRow{{"layout.pipeline_parallel=2", "layout.schedule=interleaved",
                                                     "layout.virtual_stages=2"}}));

TEST_P(ConvertOnceTrainingTest, HasTheLossesOfConvertingInEveryMicroStep) {
  const recipe::Recipe recipe = hybrid_in_bf16(GetParam().settings);
  const schedule::Target target = runtime::cpu::cpu_target(1);
  const compile::Compiled once = compile::compile_training(plan::make_plan(recipe), target);
  const compile::Compiled each =
      compile::compile_training(plan::make_plan(recipe), target, {.without = {"convert_once"}});
  const auto converts = [](const compile::StagePrograms& chip) {
    return chip.has(compile::ProgramKind::convert_weights);
  };
  EXPECT_EQ(std::ranges::any_of(once.stages, converts), GetParam().has_copies);
  EXPECT_FALSE(std::ranges::any_of(each.stages, converts));
  const std::vector<double> losses = losses_of(recipe, once);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses, losses_of(recipe, each)) << "to the bit, with weights that every step changes";
}

}  // namespace
}  // namespace megacpp::train
