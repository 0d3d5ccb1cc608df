// SPDX-License-Identifier: Apache-2.0
// Recompute policies on a hybrid with every family: less planned memory, the same training.
#include <gtest/gtest.h>

#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"

namespace megacpp::train {
namespace {

recipe::Recipe hybrid(const std::string& policy, const std::string& precision, int64_t depth) {
  std::vector<std::string> overrides = {"train.steps=3",
                                        "train.log_every=1",
                                        "train.sequence=64",
                                        "train.batch=2",
                                        "train.micro_steps=2",
                                        "train.threads=2",
                                        "train.precision=" + precision,
                                        "model.depth=" + std::to_string(depth)};
  for (const char* family : {"A", "E", "M", "R"})
    overrides.push_back("train.recompute." + std::string(family) + "=" + policy);
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam56r-tiny.yaml", overrides);
}

int64_t temporaries(const std::string& policy, int64_t depth) {
  const compile::Compiled compiled =
      compile::compile_training(plan::make_plan(hybrid(policy, "f32", depth)), runtime::cpu::cpu_target(2));
  const compile::StagePrograms& chip = compiled.stages[0];
  return chip.memory.programs[chip.index_of(compile::ProgramKind::micro_step)].temporary_bytes;
}

std::vector<double> recompute_losses(const std::string& policy, const std::string& precision) {
  const recipe::Recipe recipe = hybrid(policy, precision, 12);
  const compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(2));
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  const data::Batches batches(
      corpus, {.batch = recipe.train.batch, .sequence = recipe.train.sequence, .micro_steps = 2, .draw = {.seed = 7}});
  const auto run = runtime::cpu::load(compiled, {.threads = 2});
  RunState(compiled, *run).initialise_weights(7);
  std::vector<double> values;
  for (const StepReport& report : train({recipe, compiled, batches, *run})) values.push_back(report.loss.value());
  const runtime::ChipMemory memory = run->memory();
  EXPECT_EQ(memory.measured_peak_bytes, memory.planned_peak_bytes) << policy << " " << precision;
  return values;
}

TEST(RecomputeTest, EachPolicyPlansLessThanTheOneBefore) {
  const int64_t none = temporaries("none", 24), selective = temporaries("selective", 24),
                full = temporaries("full", 24);
  EXPECT_LT(selective, none);
  EXPECT_LT(full, selective);
  EXPECT_LT(full, none / 3) << "only block inputs are kept";
}

TEST(RecomputeTest, FullKeepsAboutOneResidualPerBlock) {
  const int64_t residual = 2 * 64 * 128 * 4;  // batch, sequence, hidden, bytes
  const int64_t growth = temporaries("full", 48) - temporaries("full", 24);
  EXPECT_LT(growth, 24 * 2 * residual) << "24 more blocks";
}

TEST(RecomputeTest, PoliciesTrainAlike) {
  for (const char* precision : {"f32", "bf16"}) {
    const std::vector<double> none = recompute_losses("none", precision);
    ASSERT_EQ(none.size(), 3U);
    EXPECT_LT(none.back(), none.front());
    EXPECT_EQ(recompute_losses("selective", precision), none) << precision;
    EXPECT_EQ(recompute_losses("full", precision), none) << precision;
  }
}

TEST(RecomputeTest, EveryShippedTinyRecipeMeasuresWhatItPlanned) {
  for (const char* name : {"nam52-tiny", "nam56r-tiny"}) {
    const std::vector<std::string> overrides = {"train.threads=2"};
    const recipe::Recipe recipe =
        recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/" + name + ".yaml", overrides);
    const compile::Compiled compiled = compile::compile_training(plan::make_plan(recipe), runtime::cpu::cpu_target(2));
    const auto run = runtime::cpu::load(compiled, {.threads = 2});
    RunState(compiled, *run).initialise_weights(7);
    run->run_step(runtime::StepMode::plain);
    EXPECT_EQ(run->memory().measured_peak_bytes, compiled.stages[0].memory.total_bytes) << name;
    int64_t items = compiled.stages[0].memory.padding_bytes;
    for (const memory::Item& item : compiled.stages[0].memory.items) items += item.bytes;
    EXPECT_EQ(items, compiled.stages[0].memory.total_bytes) << name;
    EXPECT_TRUE(compiled.fallbacks.empty()) << name;
  }
}

}  // namespace
}  // namespace megacpp::train
