// SPDX-License-Identifier: Apache-2.0
// Every optional pass switched off by itself, in every kind of layout: programs change, what they train does not.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "megacpp/core/ir/text.h"
#include "megacpp/machine/cpu/cpu_backend.h"
#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/data/batches.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/train/run_state.h"
#include "megacpp/run/train/train.h"

namespace megacpp::train {
namespace {

struct LayoutRow {
  std::string name;
  recipe::Layout layout;
  int64_t experts = 0;
};

// Weights gathered in bf16, split products, exchanged tokens, programs of stages: every optional pass has something to
// do in one of them.
const std::vector<LayoutRow> kRows = {
    {"data", {.policy = recipe::Policy::fsdp, .data_parallel = 2}},
    {"tensor", {.tensor_parallel = 2}},
    {"expert", {.expert_parallel = 2}, 4},
    {"pipeline", {.data_parallel = 2, .pipeline_parallel = 2, .zero = 1}},
};

recipe::Recipe recipe_for(const LayoutRow& row) {
  recipe::Recipe recipe;
  recipe.name = "passes";
  recipe.model = {.name = "passes", .pattern = "AE", .depth = 2, .hidden = 32, .vocab = 256};
  recipe.model.config<blocks::Attention>() = {.heads = 4, .kv_heads = 2, .head_dim = 8};
  recipe.model.config<blocks::FeedForward>() = {.intermediate = 48, .experts = row.experts};
  recipe.train = {
      .batch = 4, .sequence = 16, .micro_steps = 2, .steps = 3, .precision = ir::DType::bf16, .log_every = 1};
  recipe.layout = row.layout;
  return recipe;
}

// As for a backend whose arithmetic is cheap and whose products are fast with few rows: values are computed again, and
// the loss is cut into parts, on such ones alone.
compile::Compiled compiled_without(const recipe::Recipe& recipe, const std::vector<std::string>& passes) {
  schedule::Target target = runtime::cpu::cpu_target(1);
  target.ops_per_byte = 2;
  target.full_rate_rows = recipe.train.sequence;
  return compile::compile_training(plan::make_plan(recipe), target, {.without = passes});
}

std::string text_of(const compile::Compiled& compiled) {
  std::string text;
  for (const compile::StagePrograms& stage : compiled.stages)
    for (const compile::Program& program : stage.programs) text += ir::print(program.graph);
  return text;
}

std::vector<double> losses(const recipe::Recipe& recipe, const compile::Compiled& compiled) {
  const data::TextCorpus corpus =
      data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  const data::Batches batches(corpus, {.batch = recipe.train.batch,
                                       .sequence = recipe.train.sequence,
                                       .micro_steps = recipe.train.micro_steps,
                                       .draw = {.seed = 7}});
  const auto run = runtime::cpu::load(compiled, {.threads = 1});
  RunState(compiled, *run).initialise_weights(7);
  std::vector<double> values;
  for (const StepReport& report : train({recipe, compiled, batches, *run})) values.push_back(report.loss.value());
  return values;
}

std::vector<std::string> optional_passes() {
  std::vector<std::string> names;
  for (const compile::PassInfo& pass : compile::list_passes())
    if (pass.is_optional()) names.emplace_back(pass.name);
  return names;
}

// These change where numbers are rounded, to bf16 or, of a sum of parts, to f32; the others leave every bit.
double tolerance_of(const std::string& pass) {
  const std::set<std::string> rounding = {"fuse", "absorb_converts", "fold", "recompute_cheap", "split_loss"};
  return rounding.contains(pass) ? 5e-3 : 0;
}

// Returns the passes that had something to do.
std::set<std::string> expect_same_training(const LayoutRow& row) {
  const recipe::Recipe recipe = recipe_for(row);
  const compile::Compiled whole = compiled_without(recipe, {});
  const std::string text = text_of(whole);
  const std::vector<double> wanted = losses(recipe, whole);
  EXPECT_LT(wanted.back(), wanted.front());
  const auto expect_losses = [&](const compile::Compiled& compiled, double tolerance) {
    const std::vector<double> got = losses(recipe, compiled);
    for (size_t step = 0; step < wanted.size(); ++step) EXPECT_NEAR(got[step], wanted[step], tolerance) << step;
  };
  std::set<std::string> changing;
  for (const std::string& pass : optional_passes()) {
    SCOPED_TRACE("without " + pass);
    const compile::Compiled off = compiled_without(recipe, {pass});
    EXPECT_EQ(off.passes.size() + 1, whole.passes.size());
    if (text_of(off) != text) changing.insert(pass);
    expect_losses(off, tolerance_of(pass));
  }
  SCOPED_TRACE("without all of them");
  expect_losses(compiled_without(recipe, optional_passes()), 5e-3);
  return changing;
}

// Copies of weights are held only where far more is kept of tokens. Compiled, not trained: convert_once_test does that.
bool converts_once_with_many_tokens() {
  recipe::Recipe recipe = recipe_for(kRows[1]);
  recipe.train.sequence = 4096;
  return text_of(compiled_without(recipe, {})) != text_of(compiled_without(recipe, {"convert_once"}));
}

TEST(PassesOffTest, EachOptionalPassChangesProgramsAndNotTheTraining) {
  std::set<std::string> changing;
  for (const LayoutRow& row : kRows) {
    SCOPED_TRACE(row.name);
    changing.merge(expect_same_training(row));
  }
  if (converts_once_with_many_tokens()) changing.insert("convert_once");
  EXPECT_EQ(optional_passes(), (std::vector<std::string>{"narrow_gathers", "remove_dead", "absorb_converts", "fold",
                                                         "split_loss", "convert_once", "bucket", "fuse",
                                                         "recompute_cheap", "merge_siblings", "order", "overlap"}));
  // Nothing may be dead, and the order as written may be the best.
  for (const char* pass : {"narrow_gathers", "absorb_converts", "fold", "split_loss", "convert_once", "bucket", "fuse",
                           "recompute_cheap", "merge_siblings", "overlap"})
    EXPECT_TRUE(changing.contains(pass)) << pass << " had nothing to do in any layout";
}

}  // namespace
}  // namespace megacpp::train
