// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/compile/model_passes.h"

#include <gtest/gtest.h>

#include "megacpp/program/compile/training_graph.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/plan/plan.h"
#include "tests/support/errors.h"
#include "tests/support/plain_target.h"
#include "tests/support/small_training.h"

namespace megacpp::compile {
namespace {

class ModelPassesTest : public testing::Test {
 protected:
  Compilation run_of(const recipe::Recipe& recipe) {
    plan_ = plan::make_plan(recipe);
    return {.plan = plan_, .target = target_, .trains = true};
  }

  plan::Plan plan_;
  schedule::Target target_ = testing_support::plain_target();
};

TEST_F(ModelPassesTest, TheModelsWorkIsThreeForwardPassesOfEveryMicroStep) {
  recipe::Recipe recipe = testing_support::small_training(recipe::RecomputeLevel::none);
  recipe.train.micro_steps = 5;
  Compilation run = run_of(recipe);
  build_model(run);
  ASSERT_EQ(run.programs.size(), 1u);
  EXPECT_EQ(run.programs[0].kind, ProgramKind::micro_step);
  const double forward = flops_of(run.programs[0].graph);
  EXPECT_GT(forward, 0);
  EXPECT_DOUBLE_EQ(run.compiled.model_flops, 3 * forward * 5);
  ASSERT_EQ(run.parts.size(), 1u);
  EXPECT_EQ(run.parts[0].parameters.size(), run.forward.parameters.size());
}

TEST_F(ModelPassesTest, OfFrozenWeightsNoGradientIsCounted) {
  recipe::Recipe recipe = testing_support::small_training(recipe::RecomputeLevel::none);
  recipe.model.lora = {.rank = 2, .targets = {"block*.A.w*"}};
  Compilation run = run_of(recipe);
  build_model(run);
  EXPECT_DOUBLE_EQ(run.compiled.model_flops, 2 * flops_of(run.programs[0].graph) * 2) << "of two micro-steps";
}

TEST_F(ModelPassesTest, FlopsOfAProgramAreThoseOfItsOps) {
  ir::Graph graph("dot");
  ops::Builder builder(graph);
  const ir::ValueId x = builder.input("x", {ir::DType::f32, {3, 5}}, ir::Role::activation);
  const double before = flops_of(graph);
  builder.add(x, x);
  const double one = flops_of(graph);
  builder.add(x, x);
  EXPECT_EQ(before, 0);
  EXPECT_DOUBLE_EQ(flops_of(graph), 2 * one);
}

TEST_F(ModelPassesTest, ACutModelIsWholeInItsParts) {
  recipe::Recipe recipe = testing_support::small_training(recipe::RecomputeLevel::none);
  recipe.layout.pipeline_parallel = 2;
  recipe.layout.virtual_stages = 2;
  recipe.layout.schedule = recipe::StageSchedule::interleaved;
  Compilation run = run_of(recipe);
  build_model(run);
  const size_t parameters = run.parts[0].parameters.size();
  cut_model(run);
  ASSERT_EQ(run.programs.size(), 4u);
  size_t held = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(run.programs[i].stage, static_cast<int64_t>(i % 2));
    EXPECT_EQ(run.programs[i].chunk, static_cast<int64_t>(i / 2));
    EXPECT_EQ(run.parts[i].loss.has_value(), i == 3) << "the loss is in the last part";
    EXPECT_EQ(run.parts[i].carried_in.empty(), i == 0);
    EXPECT_EQ(run.parts[i].carried_out.empty(), i == 3);
    held += run.parts[i].parameters.size();
  }
  EXPECT_EQ(held, parameters + run.shared.size());
  append_backward_passes(run);
  build_updates(run);
  ASSERT_EQ(run.programs.size(), 6u);
  for (size_t stage = 0; stage < 2; ++stage) {
    EXPECT_EQ(run.programs[4 + stage].kind, ProgramKind::update);
    EXPECT_EQ(run.programs[4 + stage].stage, static_cast<int64_t>(stage));
  }
}

TEST_F(ModelPassesTest, APatternThatNamesNothingIsRefused) {
  recipe::Recipe recipe = testing_support::small_training(recipe::RecomputeLevel::none);
  recipe.optimizer.no_decay = {"block*.Z.*"};
  Compilation run = run_of(recipe);
  build_model(run);
  append_backward_passes(run);
  const base::Problem problem = testing_support::problem_of(base::Code::E1003, [&] { build_updates(run); });
  EXPECT_EQ(problem.where, "optimizer.no_decay");
  EXPECT_EQ(problem.got, "'block*.Z.*', which names no parameter of the model");
}

TEST_F(ModelPassesTest, EveryLetterIsRecomputedAsTheRecipeSays) {
  recipe::Recipe recipe = testing_support::small_training(recipe::RecomputeLevel::none);
  recipe.train.recompute['A'] = recipe::RecomputeLevel::full;
  recipe.train.recompute['M'] = recipe::RecomputeLevel::selective;
  const autodiff::Options options = autodiff_options(plan::make_plan(recipe).training);
  EXPECT_EQ(options.recompute.at("A"), autodiff::Recompute::full);
  EXPECT_EQ(options.recompute.at("M"), autodiff::Recompute::selective);
  EXPECT_EQ(options.recompute.at("E"), autodiff::Recompute::none);
}

TEST_F(ModelPassesTest, InputsAreFoundByTheirNames) {
  ir::Graph graph("inputs");
  ops::Builder builder(graph);
  const ir::ValueId x = builder.input("x", {ir::DType::f32, {2}}, ir::Role::activation);
  const ir::ValueId w = builder.input("w", {ir::DType::f32, {2}}, ir::Role::weight);
  builder.add(x, w);
  EXPECT_EQ(inputs_by_name(graph), (std::map<std::string, ir::ValueId>{{"w", w}, {"x", x}}));
}

}  // namespace
}  // namespace megacpp::compile
