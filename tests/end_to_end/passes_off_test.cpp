// SPDX-License-Identifier: Apache-2.0
// Every optional pass switched off by itself: the program changes, what it trains does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "megacpp/blocks/attention.h"
#include "megacpp/blocks/feed_forward.h"
#include "megacpp/compile/compile.h"
#include "megacpp/data/batches.h"
#include "megacpp/ir/text.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/runtime/cpu/cpu_backend.h"
#include "megacpp/train/run_state.h"
#include "megacpp/train/train.h"

namespace megacpp::train {
namespace {

// On two chips with weights gathered in bf16: almost every optional pass has something to do.
recipe::Recipe small_recipe() {
  recipe::Recipe recipe;
  recipe.name = "passes";
  recipe.model = {.name = "passes", .pattern = "AE", .depth = 2, .hidden = 32, .vocab = 256};
  recipe.model.config<blocks::Attention>() = {.heads = 4, .kv_heads = 2, .head_dim = 8};
  recipe.model.config<blocks::FeedForward>() = {.intermediate = 48};
  recipe.train = {.batch = 4, .sequence = 16, .micro_steps = 2, .steps = 3, .precision = "bf16", .log_every = 1};
  recipe.layout = {.policy = "fsdp", .data_parallel = 2};
  return recipe;
}

compile::Compiled compiled_without(const std::vector<std::string>& passes) {
  return compile::compile_training(small_recipe(), runtime::cpu::cpu_target(1), {.without = passes});
}

std::string text_of(const compile::Compiled& compiled) {
  std::string text;
  for (const compile::Program& program : compiled.stages[0].programs) text += ir::print(program.graph);
  return text;
}

std::vector<double> losses(const compile::Compiled& compiled) {
  const recipe::Recipe recipe = small_recipe();
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  const data::Batches batches(corpus, {.batch = recipe.train.batch,
                                       .sequence = recipe.train.sequence,
                                       .micro_steps = recipe.train.micro_steps,
                                       .seed = 7});
  const auto run = runtime::cpu::load(compiled, {.threads = 1});
  RunState(compiled, *run).initialise_weights(7);
  std::vector<double> values;
  for (const StepReport& report : train({recipe, compiled, batches, *run})) values.push_back(report.loss.value());
  return values;
}

TEST(PassesOffTest, EachOptionalPassChangesTheProgramAndNotTheTraining) {
  const compile::Compiled whole = compiled_without({});
  const std::string text = text_of(whole);
  const std::vector<double> wanted = losses(whole);
  ASSERT_LT(wanted.back(), wanted.front());
  // These change where numbers are rounded to bf16; the others leave every bit.
  const std::vector<std::string> rounding = {"fuse", "widen", "fold"};
  // Nothing is dead here, and the order as written may be the best.
  const std::vector<std::string> idle = {"remove_dead", "order"};
  std::vector<std::string> all;
  for (const compile::PassInfo& pass : compile::list_passes()) {
    if (!pass.is_optional()) continue;
    SCOPED_TRACE("without " + std::string(pass.name));
    all.emplace_back(pass.name);
    const compile::Compiled off = compiled_without({all.back()});
    EXPECT_EQ(off.passes.size() + 1, whole.passes.size());
    if (std::ranges::find(idle, all.back()) == idle.end()) {
      EXPECT_FALSE(text_of(off) == text) << "it had nothing to do";
    }
    const std::vector<double> got = losses(off);
    const bool may_round = std::ranges::find(rounding, all.back()) != rounding.end();
    for (size_t step = 0; step < wanted.size(); ++step)
      EXPECT_NEAR(got[step], wanted[step], may_round ? 5e-3 : 0) << "step " << step;
  }
  EXPECT_EQ(all,
            (std::vector<std::string>{"narrow", "remove_dead", "widen", "fold", "bucket", "fuse", "order", "overlap"}));
  const std::vector<double> none = losses(compiled_without(all));
  for (size_t step = 0; step < wanted.size(); ++step) EXPECT_NEAR(none[step], wanted[step], 5e-3) << "all off";
}

}  // namespace
}  // namespace megacpp::train
