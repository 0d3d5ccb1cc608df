// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <functional>

#include "megacpp/program/blocks/attention.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/plan/print.h"
#include "tests/support/hybrid_recipe.h"

namespace megacpp::plan {
namespace {

using blocks::Dim;
using blocks::Parameter;
using recipe::Layout;
using recipe::Recipe;

const Parameter kEmbed{"embed", {256, 64}, {Dim::vocab, Dim::whole}, {}};
const Parameter kNorm{"norm", {64}, {Dim::whole}, {}};
const Parameter kWq{"wq", {64, 64}, {Dim::whole, Dim::heads}, {}};
const Parameter kWk{"wk", {64, 32}, {Dim::whole, Dim::kv_heads}, {}};
const Parameter kWo{"wo", {64, 64}, {Dim::heads, Dim::whole}, {}};
const Parameter kWb{"w_b", {64, 256}, {Dim::whole, Dim::groups}, {}};
const Parameter kRouter{"router", {64, 8}, {Dim::whole, Dim::whole}, {}};
const Parameter kUp{"w_up", {8, 64, 96}, {Dim::experts, Dim::whole, Dim::expert_mlp}, {}};
const Parameter kBias{"expert_bias", {8}, {Dim::whole}, {}, blocks::ParameterKind::bias, false};

Plan plan_of(
    const Layout& layout, const std::function<void(Recipe&)>& change = [](Recipe&) {}) {
  Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = layout;
  recipe.train.micro_steps = 2;
  change(recipe);
  return make_plan(recipe);
}

std::string plan_text(const Plan& plan) { return "mesh: " + to_string(plan.parallel.mesh) + "\n" + axes_text(plan); }

// Each part that differs from the one in products, local shape first.
std::string plan_text(const Plan& plan, const blocks::Parameter& parameter, const ParameterSpec& spec) {
  const ir::Mesh& mesh = plan.parallel.mesh;
  std::string text =
      fmt::format("{} {} computed {}", parameter.name,
                  fmt::join(local_shape(parameter.shape, spec.computed, mesh), "x"), to_string(spec.computed, mesh));
  const auto add = [&](const char* name, const ir::Sharding& sharding) {
    if (sharding != spec.computed) text += fmt::format("; {} {}", name, to_string(sharding, mesh));
  };
  add("stored", spec.stored);
  add("kept", spec.kept);
  add("gradient", spec.gradient);
  add("optimizer", spec.optimizer);
  return text;
}

std::string specs(const Plan& plan, const std::vector<Parameter>& parameters) {
  std::string text = "\n";
  for (const Parameter& parameter : parameters) text += plan_text(plan, parameter, spec_of(plan, parameter)) + "\n";
  return text;
}

TEST(PlanTest, OneChipSpreadsNothing) {
  const Plan plan = plan_of({});
  EXPECT_TRUE(plan.parallel.is_one_chip());
  EXPECT_EQ(plan_text(plan), "mesh: one chip\n");
  EXPECT_EQ(specs(plan, {kWq, kUp}), R"(
wq 64x64 computed -,-
w_up 8x64x96 computed -,-,-
)");
  EXPECT_EQ(spec_of(plan, kWq).why, "whole");
  EXPECT_TRUE(plan.cuts.empty());
}

TEST(PlanTest, TensorAndSequenceParallel) {
  EXPECT_EQ(plan_text(plan_of({.tensor_parallel = 2})), R"(mesh: model=2
tokens between mixers: model
query heads: model
KV heads: model
inner width: model
vocabulary: model
inner width of experts: model
heads of scans: model
groups of heads: model
width of recurrences: model
)");
  const Plan plan = plan_of({.data_parallel = 2, .tensor_parallel = 2});
  EXPECT_EQ(specs(plan, {kEmbed, kNorm, kWq, kWo, kUp, kBias}), R"(
embed 128x64 computed model,-; gradient model,- ~ data; optimizer model+data,-
norm 64 computed -; gradient - ~ data; optimizer data
wq 64x32 computed -,model; gradient -,model ~ data; optimizer data,model
wo 32x64 computed model,-; gradient model,- ~ data; optimizer model+data,-
w_up 8x64x48 computed -,-,model; gradient -,-,model ~ data; optimizer data,-,model
expert_bias 8 computed -
)");
  EXPECT_EQ(spec_of(plan, kWq).why, "column-parallel over model: query heads; optimizer split over data (zero 1)");
  EXPECT_EQ(spec_of(plan, kBias).why, "whole on every chip; no gradient");
}

TEST(PlanTest, OnlyMatricesAreSplitByRowsOrColumns) {
  const Plan plan = plan_of({.tensor_parallel = 2});
  const Parameter conv{"conv", {64, 4}, {Dim::inner, Dim::whole}, {}, blocks::ParameterKind::convolution};
  EXPECT_EQ(spec_of(plan, kWo).why, "row-parallel over model: query heads");
  EXPECT_EQ(spec_of(plan, conv).why, "split over model: heads of scans");
  EXPECT_EQ(spec_of(plan, kUp).why, "split over model: inner width of experts");
}

TEST(PlanTest, LettersOfOneFamilyMayBeSplitOtherwise) {
  const Plan plan = plan_of({.tensor_parallel = 4}, [](Recipe& r) {
    r.model.pattern = "AGE";
    r.model.letters['G'] = {.family = "A", .settings = {{"attention.kv_heads", "2"}}};
  });
  EXPECT_NE(plan_text(plan).find("KV heads: model.0+model.1\n"), std::string::npos) << plan_text(plan);
  EXPECT_NE(plan_text(plan).find("KV heads of G blocks: model.0\n"), std::string::npos) << plan_text(plan);
  Parameter of_g = kWk;
  of_g.letter = 'G';
  EXPECT_EQ(to_string(spec_of(plan, kWk).computed, plan.parallel.mesh), "-,model.0+model.1");
  EXPECT_EQ(to_string(spec_of(plan, of_g).computed, plan.parallel.mesh), "-,model.0");
  EXPECT_EQ(plan.parallel.of_letter('G').axes_of(Dim::kv_heads).size(), 1u);
  EXPECT_EQ(plan.parallel.of_letter('A').axes_of(Dim::kv_heads).size(), 2u);
}

TEST(PlanTest, EightChipsShareTwoKvHeads) {
  const Plan plan =
      plan_of({.tensor_parallel = 8}, [](Recipe& r) { r.model.config<blocks::Attention>().kv_heads = 2; });
  EXPECT_EQ(plan_text(plan), R"(mesh: model.0=2, model.1=2, model.2=2
tokens between mixers: model.0+model.1+model.2
query heads: model.0+model.1+model.2
KV heads: model.0
inner width: model.0+model.1+model.2
vocabulary: model.0+model.1+model.2
inner width of experts: model.0+model.1+model.2
heads of scans: model.0+model.1+model.2
groups of heads: model.0+model.1
width of recurrences: model.0+model.1+model.2
)");
  EXPECT_EQ(specs(plan, {kWq, kWk, kWb}), R"(
wq 64x8 computed -,model.0+model.1+model.2
wk 64x16 computed -,model.0
w_b 64x64 computed -,model.0+model.1
)");
}

TEST(PlanTest, WorkedExampleOfEightChips) {
  const Plan plan = plan_of({.tensor_parallel = 8}, [](Recipe& r) {
    r.model.pattern = "A";
    r.model.hidden = 3584;
    r.model.config<blocks::Attention>() = {.heads = 56, .kv_heads = 8, .head_dim = 64};
  });
  EXPECT_EQ(specs(plan, {{"wq", {3584, 3584}, {Dim::whole, Dim::heads}, {}},
                         {"wk", {3584, 512}, {Dim::whole, Dim::kv_heads}, {}}}),
            R"(
wq 3584x448 computed -,model
wk 3584x64 computed -,model
)");
}

TEST(PlanTest, ContextInARingPairsEarlyAndLateRuns) {
  const Plan plan = plan_of({.context_parallel = 4});
  EXPECT_EQ(plan_text(plan), R"(mesh: context=4
tokens between mixers: context
tokens in mixers: context
tokens among experts: context
runs of a sequence: 8, early and late paired
)");
  EXPECT_EQ(specs(plan, {kWq, kUp}), R"(
wq 64x64 computed -,-; gradient -,- ~ context; optimizer context,-
w_up 8x64x96 computed -,-,-; gradient -,-,- ~ context; optimizer context,-,-
)");
  const Plan no_attention = plan_of({.context_parallel = 4}, [](Recipe& r) { r.model.pattern = "ME"; });
  EXPECT_FALSE(no_attention.parallel.balanced_order);
  EXPECT_EQ(no_attention.parallel.sequence_chunks, 4);
}

TEST(PlanTest, AllToAllAttentionSplitsHeadsOverContext) {
  const Plan plan =
      plan_of({.context_parallel = 2, .tensor_parallel = 2, .context_attention = recipe::ContextAttention::alltoall});
  EXPECT_FALSE(plan.parallel.ring_attention);
  EXPECT_FALSE(plan.parallel.balanced_order);
  const ir::Mesh& mesh = plan.parallel.mesh;
  EXPECT_EQ(to_string(plan.parallel.axes_of(Dim::whole_heads), mesh), "model+context");
  EXPECT_EQ(to_string(plan.parallel.axes_of(Dim::whole_kv), mesh), "model+context");
}

TEST(PlanTest, ExpertsShareTheBatchOutsideTheirBlocks) {
  const Plan plan = plan_of({.data_parallel = 2, .expert_parallel = 4, .dispatcher = recipe::Dispatcher::allgather});
  EXPECT_EQ(plan_text(plan), R"(mesh: data=2, expert=4
batch: data+expert
batch beside experts: data
experts: expert
)");
  EXPECT_TRUE(plan.parallel.gathers_tokens);
  EXPECT_EQ(specs(plan, {kRouter, kUp}), R"(
router 64x8 computed -,-; gradient -,- ~ data+expert; optimizer data+expert,-
w_up 2x64x96 computed expert,-,-; gradient expert,-,- ~ data; optimizer expert+data,-,-
)");
  EXPECT_EQ(spec_of(plan, kUp).why, "split over expert: experts; optimizer split over data (zero 1)");
}

TEST(PlanTest, ExpertsSplitLessThanTheRestTakeTheTrailingSteps) {
  const Layout layout{.context_parallel = 2, .tensor_parallel = 4, .expert_tensor_parallel = 2};
  const Plan plan = plan_of(layout);
  const ir::Mesh& mesh = plan.parallel.mesh;
  EXPECT_EQ(to_string(mesh), "context=2, model.0=2, model.1=2");
  EXPECT_EQ(to_string(plan.parallel.axes_of(Dim::tokens), mesh), "context+model.0");
  EXPECT_EQ(to_string(plan.parallel.axes_of(Dim::expert_mlp), mesh), "model.1");
  EXPECT_EQ(plan.parallel.sequence_chunks, 4);
  EXPECT_EQ(plan.parallel.token_chunks, 8);
  EXPECT_EQ(specs(plan, {kUp}), R"(
w_up 8x64x48 computed -,-,model.1; gradient -,-,model.1 ~ context+model.0; optimizer context+model.0,-,model.1
)");
  Layout without = layout;
  without.sequence_parallel = false;
  const Plan replicated = plan_of(without);
  EXPECT_EQ(to_string(replicated.parallel.axes_of(Dim::tokens), mesh), "context") << "tokens arrive whole on model.0";
  EXPECT_EQ(replicated.parallel.token_chunks, 4);
}

TEST(PlanTest, MixedLayoutUsesEveryAxisInOrder) {
  const Plan plan = plan_of({.data_parallel = 2,
                             .expert_parallel = 2,
                             .context_parallel = 2,
                             .tensor_parallel = 2,
                             .pipeline_parallel = 2,
                             .zero = 3});
  EXPECT_EQ(plan_text(plan), R"(mesh: stage=2, data=2, expert=2, context=2, model=2
batch: data+expert
batch beside experts: data
tokens between mixers: context+model
tokens in mixers: context
query heads: model
KV heads: model
inner width: model
vocabulary: model
experts: expert
inner width of experts: model
tokens among experts: context
heads of scans: model
groups of heads: model
width of recurrences: model
runs of a sequence: 4, early and late paired
)");
  EXPECT_EQ(plan.chips, 32);
  EXPECT_EQ(plan.stages, 2);
  EXPECT_EQ(specs(plan, {kWo, kUp}), R"(
wo 32x64 computed model,-; stored model+data+expert+context,-; kept model+data+expert+context,-; gradient model+data+expert+context,-; optimizer model+data+expert+context,-
w_up 4x64x48 computed expert,-,model; stored expert+data+context,-,model; kept expert+data+context,-,model; gradient expert+data+context,-,model; optimizer expert+data+context,-,model
)");
}

TEST(PlanTest, ZeroSplitsOptimizerThenGradientsThenWeights) {
  const auto spec = [](int64_t zero) { return specs(plan_of({.data_parallel = 4, .zero = zero}), {kWq}); };
  EXPECT_EQ(spec(0), "\nwq 64x64 computed -,-; gradient -,- ~ data\n");
  EXPECT_EQ(spec(1), "\nwq 64x64 computed -,-; gradient -,- ~ data; optimizer data,-\n");
  EXPECT_EQ(spec(2), "\nwq 64x64 computed -,-; gradient data,-; optimizer data,-\n");
  EXPECT_EQ(spec(3), "\nwq 64x64 computed -,-; stored data,-; kept data,-; gradient data,-; optimizer data,-\n");
  EXPECT_TRUE(plan_of({.data_parallel = 4, .zero = 1}).gradients_wait);
  EXPECT_FALSE(plan_of({.data_parallel = 4, .zero = 2}).gradients_wait);
}

TEST(PlanTest, GradientsOfASingleMicroStepDoNotWait) {
  const auto plan = [](int64_t zero) {
    return plan_of({.data_parallel = 4, .zero = zero}, [](Recipe& r) { r.train.micro_steps = 1; });
  };
  EXPECT_EQ(specs(plan(0), {kWq}), "\nwq 64x64 computed -,-\n");
  EXPECT_EQ(specs(plan(1), {kWq}), "\nwq 64x64 computed -,-; gradient data,-; optimizer data,-\n");
  EXPECT_EQ(spec_of(plan(1), kWq).why, "whole on every chip; gradient and optimizer split over data (zero 1)");
  for (const int64_t zero : {0, 1, 2, 3}) EXPECT_FALSE(plan(zero).gradients_wait) << zero;
}

TEST(PlanTest, ZeroSplitsTheFirstDimensionThatDividesElseTheLargest) {
  const Plan plan = plan_of({.data_parallel = 4});
  EXPECT_EQ(specs(plan, {{"second", {3, 8}, {Dim::whole, Dim::whole}, {}},
                         {"largest", {3, 7}, {Dim::whole, Dim::whole}, {}},
                         {"small", {3}, {Dim::whole}, {}}}),
            R"(
second 3x8 computed -,-; gradient -,- ~ data; optimizer -,data
largest 3x7 computed -,-; gradient -,- ~ data; optimizer -,data
small 3 computed -; gradient - ~ data; optimizer data
)");
}

TEST(PlanTest, WeightsAreKeptBetweenForwardAndBackwardAsAsked) {
  const auto spec = [](const char* text) {
    recipe::ReshardAfterForward reshard;
    EXPECT_TRUE(read_text(text, reshard)) << text;
    const Plan plan = plan_of({.data_parallel = 8, .zero = 3, .reshard_after_forward = reshard});
    return to_string(spec_of(plan, kWq).kept, plan.parallel.mesh) + " | " + spec_of(plan, kWq).why;
  };
  EXPECT_EQ(spec("true"), "data,- | whole on every chip; weight, gradient and optimizer split over data (zero 3)");
  EXPECT_EQ(spec("false"),
            "-,- | whole on every chip; weight, gradient and optimizer split over data (zero 3), whole from forward to "
            "backward");
  EXPECT_EQ(spec("4"),
            "data.1,- | whole on every chip; weight, gradient and optimizer split over data.0+data.1 (zero 3), over "
            "data.1 from forward to backward");
  const Plan plan = plan_of({.data_parallel = 8,
                             .zero = 3,
                             .reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::group, .chips = 4}});
  EXPECT_EQ(to_string(plan.parallel.mesh), "data.0=2, data.1=4");
  EXPECT_EQ(to_string(spec_of(plan, kWq).stored, plan.parallel.mesh), "data.1+data.0,-") << "a gather over data.0 away";
}

TEST(PlanTest, OnlyAPipelineIsCutWhereThePatternSays) {
  const auto cuts = [](int64_t stages, const char* pattern, int64_t depth) {
    return plan_of({.pipeline_parallel = stages}, [&](Recipe& r) { r.model.pattern = pattern, r.model.depth = depth; })
        .cuts;
  };
  EXPECT_EQ(cuts(3, "AEMR", 8), (std::vector<int64_t>{}));
  EXPECT_EQ(cuts(2, "AEM|RAEMR", 8), (std::vector<int64_t>{3}));
  EXPECT_EQ(cuts(1, "AEM|RAEMR", 8), (std::vector<int64_t>{}));
}

TEST(PlanTest, TheResolvedLayoutMakesTheSamePlan) {
  Recipe recipe = testing_support::hybrid_recipe();
  recipe.layout = {.policy = recipe::Policy::fsdp,
                   .data_parallel = 8,
                   .context_parallel = 2,
                   .reshard_after_forward = {.over = recipe::ReshardAfterForward::Over::group, .chips = 2}};
  const Plan plan = make_plan(recipe);
  EXPECT_EQ(plan.layout->chips, 16);
  EXPECT_EQ(plan.layout.zero(), 3);
  EXPECT_EQ(plan.layout->expert_tensor_parallel, 1);
  EXPECT_EQ(plan.layout->bucket_bytes, 160'000'000);
  EXPECT_FALSE(plan.layout->sequence_parallel);
  EXPECT_EQ(plan.gathers, GatherUnit::block);
  recipe.layout = plan.layout.keys();
  const Plan again = make_plan(recipe);
  EXPECT_EQ(again.layout.keys(), plan.layout.keys());
  EXPECT_EQ(plan_text(again), plan_text(plan));
  recipe.layout = {.tensor_parallel = 2};
  recipe.model.config<blocks::FeedForward>().experts = 0;
  recipe.layout = make_plan(recipe).layout.keys();
  EXPECT_NO_THROW(make_plan(recipe)) << "nothing of experts is filled in where there are none";
}

TEST(PlanTest, BucketsGrowWithTheChipsThatShareThem) {
  const Plan plan = plan_of({.data_parallel = 48}, [](Recipe& r) { r.train.batch = 48; });
  EXPECT_EQ(plan.layout->bucket_bytes, 4 * 48'000'000);
}

}  // namespace
}  // namespace megacpp::plan
