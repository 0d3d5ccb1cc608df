// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/ladder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "megacpp/program/recipe/chip_settings.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/recompute.h"
#include "tests/support/unrolled_blocks.h"

namespace megacpp::fit {
namespace {

// A small model on virtual chips. Every op has a kernel without scratch memory.
Estimate estimate_here(const recipe::Recipe& recipe, const Ceiling& ceiling = {}) {
  const int64_t chips = recipe::chips_of(recipe.layout);
  const hw::HostRates rates{.matrix_flops = 1e11, .bytes_per_second = 1e10, .cores = 2, .memory = int64_t{1} << 34};
  return make_estimate(
      recipe,
      {.slice = hw::parse_target("host:" + std::to_string(chips), {.host_rates = [&] { return rates; }}),
       .kernels = {.name = "any",
                   .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                   .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }},
       .limits = recipe::chip_limits(recipe.hardware, chips)},
      FitVerdict::close, ceiling);
}

// Nothing is recomputed but by a rung, so that the rungs have all to do.
recipe::Recipe recipe_with(std::vector<std::string> settings, const char* name = "nam52-tiny") {
  for (const char* family : {"R", "M", "E", "A"})
    settings.insert(settings.begin(), fmt::format("train.recompute.{}=none", family));
  return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/" + name + ".yaml", settings);
}

// Neither recompute nor ZeRO.
constexpr const char* kFewRungs = "ladder.rungs=[batch, sequence, features, topology]";

LadderPath walk_with(const std::vector<std::string>& settings, const Ceiling& ceiling = {}) {
  return walk_ladder(estimate_here(recipe_with(settings)), estimate_here, ceiling);
}

const Attempt* attempt_of(const LadderPath& path, const std::string& rung) {
  for (const Attempt& attempt : path.attempts)
    if (attempt.name == rung) return &attempt;
  return nullptr;
}

TEST(LadderTest, TheTableHasTheRungsThatRecipesMayName) {
  ASSERT_EQ(all_rungs().size(), recipe::rung_names().size());
  for (size_t i = 0; i < all_rungs().size(); ++i) EXPECT_EQ(all_rungs()[i].name, recipe::rung_names()[i]);
}

TEST(LadderTest, ActivationsThatOverflowHalveTheBatchAndKeepTheGlobalOne) {
  const LadderPath path = walk_with({"hardware.limit=100MiB"});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.rung, 1u);
  EXPECT_EQ(to_text(path.changes), "train.batch=4 train.micro_steps=2");
  EXPECT_FALSE(path.changes_experiment);
  EXPECT_TRUE(path.found->fit.fits());
}

// Where a compiler places buffers a plan below the limit may still be too large: the ladder says so and goes no
// further, since that compiler is asked next.
TEST(LadderTest, APlanThatOnlyFitsWithoutGapsIsCalledClose) {
  const MakeEstimate with_gaps = [](const recipe::Recipe& recipe, const Ceiling& ceiling) {
    Estimate estimate = estimate_here(recipe, ceiling);
    for (ChipGroup& group : estimate.fit.groups) group.reservation.most *= 100;
    return estimate;
  };
  const recipe::Recipe recipe = recipe_with({"hardware.limit=100MiB"});
  const LadderPath path = walk_ladder(with_gaps(recipe, {}), with_gaps);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(to_text(path.changes), "train.batch=4 train.micro_steps=2");
  EXPECT_EQ(path.attempts.back().verdict, Verdict::close) << to_text(path);
  EXPECT_NE(to_text(path).find(" close "), std::string::npos) << to_text(path);
}

TEST(LadderTest, TheBatchIsHalvedAsOftenAsNeeded) {
  const LadderPath path = walk_with({"hardware.limit=40MiB"});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(to_text(path.changes), "train.batch=1 train.micro_steps=8");
}

TEST(LadderTest, WeightsThatOverflowSkipTheBatchAndSayWhy) {
  const LadderPath path = walk_with({"hardware.limit=16MiB", kFewRungs});
  EXPECT_FALSE(path.found);
  for (const char* rung : {"batch", "sequence", "features"}) {
    ASSERT_NE(attempt_of(path, rung), nullptr);
    EXPECT_EQ(attempt_of(path, rung)->verdict, Verdict::skipped);
    EXPECT_NE(attempt_of(path, rung)->reason.find("optimizer 8.95 MiB"), std::string::npos) << to_text(path);
  }
  EXPECT_EQ(path.rung, 5u) << "stop";
  EXPECT_NE(to_text(path).find("rung 5 stop"), std::string::npos);
}

// Far below what stays on the chip every rung is skipped; the frontier is still where the batch and the sequence end.
TEST(LadderTest, TheFrontierIsTheLeastThatAllRungsLeadTo) {
  int plans = 0;
  const auto counted = [&](const recipe::Recipe& recipe, const Ceiling& ceiling) {
    ++plans;
    return estimate_here(recipe, ceiling);
  };
  const recipe::Recipe recipe = recipe_with({"hardware.limit=10MiB", kFewRungs});
  const Estimate first = estimate_here(recipe);
  const LadderPath path = fit::walk_ladder(first, counted);
  EXPECT_FALSE(path.found);
  EXPECT_TRUE(path.changes.empty()) << "nothing was taken";
  for (const Attempt& attempt : path.attempts) EXPECT_NE(attempt.verdict, Verdict::fits) << attempt.name;
  EXPECT_LT(path.least_needed, first.fit.worst().needed() / 4);
  const recipe::Recipe least = with_changes(recipe, path.least_changes);
  EXPECT_EQ(least.train.batch, 1);
  EXPECT_EQ(least.train.micro_steps, recipe.train.micro_steps * recipe.train.batch) << "the global batch stays";
  EXPECT_LT(least.train.sequence, recipe.train.sequence);
  EXPECT_EQ(estimate_here(least).fit.worst().needed(), path.least_needed);
  EXPECT_LE(plans, 12) << to_text(path);
}

TEST(LadderTest, TheFrontierKeepsToWhatTheGatesAllow) {
  const LadderPath path = walk_with({"layout.data_parallel=4", "hardware.limit=1MiB", "ladder.rungs=[batch]"});
  EXPECT_FALSE(path.found);
  EXPECT_EQ(to_text(path.least_changes), "train.batch=4 train.micro_steps=2") << "a sequence for each chip";
}

// The code of a TPU alone exceeds the limit, so that not even another layout could help.
TEST(LadderTest, TheFrontierHasLayoutsThatWereSkipped) {
  const auto on_tpu = [](const recipe::Recipe& recipe, const Ceiling& ceiling) {
    return make_estimate(
        recipe,
        {.slice = hw::parse_target("v6e:2x2"),
         .kernels = {.name = "any",
                     .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                     .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; }},
         .reserve = testing_support::reserving({.code = int64_t{1} << 29}),
         .limits = recipe::chip_limits(recipe.hardware, 4)},
        FitVerdict::close, ceiling);
  };
  const recipe::Recipe recipe = recipe_with(
      {"layout.data_parallel=4", "train.sequence=16", "hardware.limit=10MiB", "ladder.rungs=[batch, topology]"});
  const LadderPath path = fit::walk_ladder(on_tpu(recipe, {}), on_tpu);
  EXPECT_FALSE(path.found);
  ASSERT_NE(attempt_of(path, "topology"), nullptr);
  EXPECT_EQ(attempt_of(path, "topology")->verdict, Verdict::skipped) << to_text(path);
  const std::string least = to_text(path.least_changes);
  EXPECT_NE(least.find("layout.data_parallel=1"), std::string::npos) << least;
  EXPECT_NE(least.find("train.batch=1"), std::string::npos) << "one copy needs one sequence: " << least;
}

TEST(LadderTest, WithoutMoreBatchTheSequenceIsShorterAndThatIsSaid) {
  const LadderPath path = walk_with({"train.batch=1", "hardware.limit=30MiB", kFewRungs});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.rung, 2u);
  EXPECT_TRUE(path.changes_experiment);
  EXPECT_NE(to_text(path).find("another experiment"), std::string::npos);
}

TEST(LadderTest, ByDefaultWhatChangesNoResultComesFirst) {
  const LadderPath path = walk_with({"train.batch=1", "hardware.limit=30MiB"});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_FALSE(path.changes_experiment) << to_text(path);
  EXPECT_EQ(path.found->recipe().train.sequence, 256);
  std::string order;
  for (const Rung* rung : rungs_of(recipe::Ladder{})) order += std::string(rung->name) + " ";
  EXPECT_EQ(order, "batch recompute zero offload sequence features topology ");
}

// On a device beside a host with so much memory.
MakeEstimate beside_host(int64_t host_bytes) {
  return [host_bytes](const recipe::Recipe& recipe, const Ceiling& ceiling) {
    Hosts hosts{.all = {{.name = "node7", .bytes = host_bytes}}, .of_chips = [](const ir::Mesh& mesh) {
                  return std::vector<int64_t>(static_cast<size_t>(mesh.chips()), 0);
                }};
    Assumptions assumptions{
        .slice = hw::parse_target("h200:1"),
        .kernels = {.name = "any",
                    .runs = [](std::string_view, const ops::NodeView&) { return base::Decision::yes(); },
                    .workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; },
                    .tiers = {ir::Tier::host}},
        .kernels_run_there = true,
        .limits = recipe::chip_limits(recipe.hardware, 1),
        .hosts = std::move(hosts)};
    return make_estimate(recipe, assumptions, FitVerdict::close, ceiling);
  };
}

TEST(LadderTest, StateThatOverflowsGoesToTheHostBeforeTheExperimentChanges) {
  const MakeEstimate roomy = beside_host(int64_t{1} << 30);
  const recipe::Recipe small = recipe_with({"train.batch=1", "train.sequence=32"});
  const Estimate whole = roomy(small, {});
  recipe::Recipe offloaded = small;
  offloaded.layout.offload = recipe::Offload::optimizer;
  const Estimate least = roomy(offloaded, {});
  ASSERT_LT(least.fit.worst().needed(), whole.fit.worst().needed());
  EXPECT_EQ(whole.fit.host_offloaded, 0);
  EXPECT_GT(least.fit.host_offloaded, 0);
  EXPECT_EQ(whole.fit.host_snapshot, least.fit.host_snapshot) << "it is as large wherever state is";

  recipe::Recipe limited = small;
  limited.ladder.rungs = {"batch", "offload", "sequence"};
  limited.hardware.limit.bytes = least.fit.worst().needed();
  const LadderPath path = walk_ladder(roomy(limited, {}), roomy);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(to_text(path.changes), "layout.offload=optimizer");
  EXPECT_FALSE(path.changes_experiment);
  EXPECT_EQ(attempt_of(path, "sequence"), nullptr) << to_text(path);

  const MakeEstimate narrow = beside_host(least.fit.host_needed() - 1);
  EXPECT_FALSE(narrow(offloaded, {}).fit.fits()) << "a byte more than the host has";
  EXPECT_TRUE(narrow(small, {}).fit.fits());
  limited.ladder.rungs = {"offload"};
  const LadderPath none = walk_ladder(narrow(limited, {}), narrow);
  EXPECT_FALSE(none.found);
  EXPECT_TRUE(none.changes.empty()) << "what the host cannot hold is not taken";
  ASSERT_NE(attempt_of(none, "offload"), nullptr);
  EXPECT_TRUE(attempt_of(none, "offload")->reason.starts_with("its host has ")) << to_text(none);
}

TEST(LadderTest, ActivationsFollowStateToTheHostWhereThatFreesBytes) {
  const MakeEstimate beside = beside_host(int64_t{1} << 30);
  recipe::Recipe limited = recipe_with({"ladder.rungs=[offload]"}), state = limited, all = limited;
  state.layout.offload = recipe::Offload::optimizer;
  all.layout.offload = recipe::Offload::all;
  const Estimate of_state = beside(state, {}), of_all = beside(all, {});
  ASSERT_LT(of_all.fit.worst().needed(), of_state.fit.worst().needed());
  EXPECT_GT(of_all.fit.host_offloaded, of_state.fit.host_offloaded);
  limited.hardware.limit.bytes = of_state.fit.worst().needed();
  EXPECT_EQ(to_text(walk_ladder(beside(limited, {}), beside).changes), "layout.offload=optimizer") << "state suffices";
  limited.hardware.limit.bytes = of_all.fit.worst().needed();
  const LadderPath path = walk_ladder(beside(limited, {}), beside);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(to_text(path.changes), "layout.offload=all");
  EXPECT_FALSE(path.changes_experiment);

  recipe::Recipe small = recipe_with({"train.batch=1", "train.sequence=32", "ladder.rungs=[offload]"});
  small.hardware.limit.bytes = 1 << 20;
  const LadderPath least = walk_ladder(beside(small, {}), beside);
  EXPECT_FALSE(least.found) << to_text(least);
  EXPECT_EQ(to_text(least.least_changes), "layout.offload=optimizer") << "activations that small stay";
}

TEST(LadderTest, WhatAHostLacksRaisesNoRecompute) {
  const recipe::Recipe recipe = recipe_with({"train.recompute=auto"});
  const Estimate roomy = beside_host(int64_t{1} << 30)(recipe, {}), narrow = beside_host(1)(recipe, {});
  EXPECT_TRUE(roomy.fit.may_fit());
  EXPECT_FALSE(narrow.fit.may_fit());
  EXPECT_EQ(to_text(narrow.recompute), to_text(roomy.recompute));
  EXPECT_EQ(narrow.fit.worst().needed(), roomy.fit.worst().needed());
}

TEST(LadderTest, StateStaysWhereThereIsOneMemory) {
  const LadderPath path = walk_with({"hardware.limit=16MiB", "ladder.rungs=[offload]"});
  ASSERT_EQ(path.attempts.size(), 1u) << to_text(path);
  EXPECT_EQ(path.attempts[0].verdict, Verdict::skipped);
  EXPECT_EQ(path.attempts[0].reason, "what runs here keeps everything in one memory");
}

// Limits from what stays on the chip up to what was requested.
TEST(LadderTest, WhatIsCalledTheLeastDoesNotFit) {
  const std::string small = "model.depth=2";
  const Estimate whole = estimate_here(recipe_with({small}));
  const int64_t state = whole.fit.worst().reservation.state, tokens = whole.fit.worst().needed() - state;
  for (const char* rungs : {"[zero, recompute, batch]", "[sequence, recompute]"})
    for (const int64_t part : {64, 8, 2}) {
      const std::string limit = "hardware.limit=" + std::to_string(state + tokens / part);
      const recipe::Recipe recipe = recipe_with({small, limit, std::string("ladder.rungs=") + rungs});
      const LadderPath path = fit::walk_ladder(estimate_here(recipe), estimate_here);
      const Estimate least = estimate_here(with_changes(recipe, path.found ? path.changes : path.least_changes));
      EXPECT_EQ(least.fit.fits(), path.found.has_value()) << rungs << " " << limit << "\n" << to_text(path);
      EXPECT_TRUE(path.found || least.fit.worst().needed() == path.least_needed) << rungs << " " << limit;
    }
}

// One chip for a hybrid whose state alone is more: the least that is named runs where there is exactly as much.
TEST(LadderTest, TheLeastRunsWhereAChipHasAsMuch) {
  const std::vector<std::string> settings = {"hardware.limit=24MiB", "ladder.rungs=[zero, recompute, batch]"};
  const recipe::Recipe recipe = recipe_with(settings, "nam56r-tiny");
  const LadderPath path = fit::walk_ladder(estimate_here(recipe), estimate_here);
  ASSERT_FALSE(path.found) << to_text(path);
  ASSERT_FALSE(path.least_changes.empty()) << to_text(path);
  recipe::Recipe least = with_changes(recipe, path.least_changes);
  least.hardware.limit.bytes = path.least_needed;
  EXPECT_TRUE(estimate_here(least).fit.fits()) << end_text(path);
  least.hardware.limit.bytes = path.least_needed - 1;
  EXPECT_FALSE(estimate_here(least).fit.fits()) << end_text(path);
}

// Weights alone exceed the limit, so that all of the sequence is there to be given up for nothing.
TEST(LadderTest, WhatFreesNothingIsNotTaken) {
  const recipe::Recipe recipe = recipe_with({"train.batch=1", "hardware.limit=10MiB", "ladder.rungs=[sequence]"});
  const LadderPath path = fit::walk_ladder(estimate_here(recipe), estimate_here);
  ASSERT_FALSE(path.found);
  const recipe::Recipe least = with_changes(recipe, path.least_changes);
  ASSERT_LT(least.train.sequence, recipe.train.sequence);
  const recipe::Recipe longer = with_changes(least, {{"train.sequence", std::to_string(2 * least.train.sequence)}});
  EXPECT_GT(estimate_here(longer).fit.worst().needed(), path.least_needed) << to_text(path);
}

// With one micro-step gradients are scattered from level 1 on, so level 2 saves nothing, and 3 does.
TEST(LadderTest, ARungIsTriedToItsEnd) {
  const std::vector<std::string> settings = {"layout.data_parallel=4", "layout.zero=0", "train.sequence=16"};
  const auto needed_at = [&](int zero) {
    std::vector<std::string> all = settings;
    all.push_back("layout.zero=" + std::to_string(zero));
    return estimate_here(recipe_with(all)).fit.worst().needed();
  };
  const int64_t two = needed_at(2), three = needed_at(3);
  ASSERT_LT(three, two - two / 100);
  std::vector<std::string> limited = settings;
  limited.push_back("hardware.limit=" + std::to_string(three));
  limited.push_back("ladder.rungs=[zero]");
  const LadderPath path = walk_with(limited);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(to_text(path.changes), "layout.zero=3");
}

// Two copies of a hybrid: the second level of ZeRO saves nothing, the third enough.
TEST(LadderTest, ALevelThatSavesNothingDoesNotHideTheNext) {
  const recipe::Recipe recipe = recipe_with({"train.recompute=auto", "layout.data_parallel=2", "hardware.limit=24MiB",
                                             "ladder.rungs=[zero, recompute, batch]"},
                                            "nam56r-tiny");
  const LadderPath path = fit::walk_ladder(estimate_here(recipe), estimate_here);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_NE(to_text(path.changes).find("layout.zero=3"), std::string::npos) << to_text(path);
  EXPECT_FALSE(path.changes_experiment);
}

// The peak is in the update, where a shorter sequence saves the bytes of its ids.
TEST(LadderTest, TheSequenceIsNotCutForTheBytesOfItsIds) {
  const recipe::Recipe recipe =
      recipe_with({"train.recompute=auto", "layout.data_parallel=2", "hardware.limit=24MiB", kFewRungs}, "nam56r-tiny");
  const LadderPath path = fit::walk_ladder(estimate_here(recipe), estimate_here);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_FALSE(path.changes_experiment) << to_text(path);
}

TEST(LadderTest, OldAndNewValuesAreNamed) {
  const recipe::Recipe recipe = recipe_with({});
  EXPECT_EQ(changed_text(recipe, {{"train.batch", "4"}, {"train.micro_steps", "2"}, {"train.recompute.E", "full"}}),
            "train.batch=4 (was 8), train.micro_steps=2 (was 1), train.recompute.E=full (was none)");
  EXPECT_EQ(changed_text(recipe, {{"train.sequence", "128"}}),
            fmt::format("train.sequence=128 (was {})", recipe.train.sequence));
  EXPECT_EQ(changed_text(recipe, {{"layout.zero", "3"}}), "layout.zero=3 (was 1)") << "which the policy chose";
  EXPECT_EQ(changed_text(recipe_with({"layout.policy=fsdp"}), {{"layout.zero", "2"}}), "layout.zero=2 (was 3)");
}

TEST(LadderTest, WhereNothingFitsTheErrorOffersTheLeast) {
  const memory::OutOfMemory misfit(base::Code::E2001, {"a chip", "2.00 MiB", "less", "split it"},
                                   {.cls = memory::OomClass::compile});
  LadderPath path{.least_needed = 1 << 20};
  EXPECT_EQ(offering_least(misfit, recipe_with({}), path).problem().next, "split it") << "nothing was of use";
  path.least_changes = {{"train.batch", "4"}};
  EXPECT_EQ(offering_least(misfit, recipe_with({}), path).problem().next,
            "where a chip may use 1048576 bytes (1.00 MiB), run with train.batch=4 (was 8), the least that the ladder "
            "leads to; else split it");
}

TEST(LadderTest, OneSmallChipTakesTheWholeMeshDown) {
  const LadderPath path = walk_with({"layout.data_parallel=4", "hardware.limits=[2=30MiB]"});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(to_text(path.changes), "train.batch=4 train.micro_steps=2") << "one recipe for all chips";
  EXPECT_EQ(path.found->fit.worst().chip, 2);
}

TEST(LadderTest, WeightsGoOverMoreChipsByTopology) {
  const LadderPath path =
      walk_with({"layout.data_parallel=4", "layout.zero=0", "train.sequence=64", "hardware.limit=17MiB", kFewRungs});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.rung, 4u);
  EXPECT_EQ(recipe::chips_of(path.found->recipe().layout), 4);
}

TEST(LadderTest, WhatOverflowsTogetherIsReducedTogether) {
  const LadderPath path = walk_with({"layout.data_parallel=4", "layout.zero=0", "train.batch=16", "train.sequence=64",
                                     "hardware.limit=12MiB", "ladder.rungs=[batch,zero]"});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.attempts[0].verdict, Verdict::skipped) << "alone the batch cannot help";
  const std::string taken = to_text(path.changes);
  EXPECT_NE(taken.find("layout.zero="), std::string::npos) << taken;
  EXPECT_NE(taken.find("train.batch="), std::string::npos) << taken;
}

TEST(LadderTest, ThePolicyOrdersTheRungs) {
  const LadderPath path = walk_with({"hardware.limit=100MiB", "ladder.rungs=[recompute,batch]"});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.rung, 1u);
  EXPECT_TRUE(to_text(path.changes).starts_with("train.recompute.E=selective")) << to_text(path);
  EXPECT_TRUE(walk_with({"hardware.limit=100MiB", "ladder.rungs=[]"}).attempts.empty());
}

TEST(LadderTest, AfterAFailureLessIsAskedForThanFailed) {
  const Estimate first = estimate_here(recipe_with({}));
  const int64_t needed = first.fit.worst().needed();
  const LadderPath path = fit::walk_ladder(first, estimate_here, {needed});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_LT(path.found->fit.worst().needed(), needed);
}

// The expert that most tokens choose makes the chips that hold it the tight ones. They alone do not fit, and the step
// that reduces them is the whole mesh's.
TEST(LadderTest, AnExpertHotSpotIsReducedByTheBatch) {
  const std::vector<std::string> settings = {"layout.expert_parallel=2", "layout.data_parallel=2", "train.batch=8",
                                             "model.feed_forward.capacity_factor=4"};
  const recipe::Recipe even = recipe_with(settings, "nam56r-tiny");
  const int64_t needed = estimate_here(even).fit.worst().needed();
  std::vector<std::string> hot = settings;
  hot.push_back("hardware.limits=[1=" + std::to_string(needed - 1) + ", 3=" + std::to_string(needed - 1) + "]");
  const Estimate first = estimate_here(recipe_with(hot, "nam56r-tiny"));
  ASSERT_FALSE(first.fit.fits());
  EXPECT_EQ(first.fit.worst().place, "chip 1: data 0, expert 1");
  EXPECT_EQ(first.fit.worst().chips, 2) << "chips 1 and 3 hold the expert";
  ASSERT_EQ(first.fit.groups.size(), 2u);
  EXPECT_TRUE(first.fit.groups[1].fits()) << "the others have memory left";
  EXPECT_EQ(first.fit.groups[1].chip, 0);

  const LadderPath path = fit::walk_ladder(first, estimate_here);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.rung, 1u);
  EXPECT_EQ(to_text(path.changes), "train.batch=4 train.micro_steps=2");
  EXPECT_EQ(path.found->fit.worst().chip, 1) << "still the tightest";
  for (const ChipGroup& group : path.found->fit.groups) EXPECT_LT(group.needed(), needed) << group.place;
}

// What auto recomputes is decided anew for every rung, and never listed as a change of the ladder's.
TEST(LadderTest, ARungThatMakesRoomLeavesLessToRecompute) {
  const std::vector<std::string> settings = {"train.recompute.A=auto", "train.recompute.E=auto",
                                             "hardware.limit=40MiB"};
  const Estimate first = estimate_here(recipe_with(settings));
  ASSERT_FALSE(first.fit.fits());
  EXPECT_EQ(recipe::recompute_level(first.recipe(), 'E'), recipe::RecomputeLevel::full)
      << "the least is what is reported";
  const LadderPath path = walk_ladder(first, estimate_here);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.rung, 1u);
  EXPECT_EQ(to_text(path.changes).find("recompute"), std::string::npos) << to_text(path);
  EXPECT_GT(path.found->recipe().train.batch, 1) << "more of the batch stays than without recompute";
}

// What failed bounds planning as a limit does. What it took because of that is a change to remember: planning without
// the failure would take less again.
TEST(LadderTest, BelowACeilingAutoRecomputesMoreWithinARung) {
  const Ceiling ceiling{walk_with({"train.batch=2", "ladder.rungs=[batch]"},
                                  {estimate_here(recipe_with({"train.batch=2"})).fit.worst().needed()})
                            .found->fit.worst()
                            .needed()};
  const Estimate first = estimate_here(recipe_with({"train.recompute=auto", "train.batch=2", "ladder.rungs=[batch]"}));
  ASSERT_TRUE(first.fit.fits());
  const LadderPath path = walk_ladder(first, estimate_here, ceiling);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.rung, 1u);
  EXPECT_LT(path.found->fit.worst().needed(), ceiling.bytes);
  EXPECT_EQ(path.found->recipe().train.batch, 1);
  EXPECT_NE(to_text(path.changes).find("train.recompute."), std::string::npos) << to_text(path);
  EXPECT_NE(to_text(path.found->recompute).find("ran out of memory"), std::string::npos);
  const Estimate again = estimate_here(with_changes(first.requested(), path.changes));
  EXPECT_EQ(again.recipe(), path.found->recipe()) << "the changes alone lead there";
  EXPECT_TRUE(offers(first.requested(), path.changes));
  EXPECT_FALSE(offers(recipe_with({"ladder.rungs=[batch]"}), path.changes)) << "levels that the recipe gives";
}

TEST(LadderTest, WithoutRungsNothingIsChangedAfterAFailure) {
  const Estimate first = estimate_here(recipe_with({"train.recompute=auto", "ladder.rungs=[]"}));
  const LadderPath path = walk_ladder(first, estimate_here, {first.fit.worst().needed()});
  EXPECT_FALSE(path.found);
  EXPECT_TRUE(path.attempts.empty()) << to_text(path);
}

TEST(LadderTest, TheRecomputeRungStartsFromWhatAutoBecame) {
  const Estimate first = estimate_here(recipe_with({"train.recompute=auto", "ladder.rungs=[recompute]"}));
  ASSERT_TRUE(first.fit.fits());
  EXPECT_EQ(recipe::recompute_level(first.recipe(), 'E'), recipe::RecomputeLevel::none);
  const LadderPath path = walk_ladder(first, estimate_here, {first.fit.worst().needed()});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.rung, 1u);
  EXPECT_EQ(to_text(path.changes), "train.recompute.E=selective");
}

// Where plans may unroll blocks: of a recipe that leaves loops to them.
MakeEstimate with_loops_by_plan(int64_t limit = 0) {
  return [limit](const recipe::Recipe& recipe, const Ceiling& ceiling) {
    return make_estimate(recipe, testing_support::with_unrolled_lane(limit), FitVerdict::close, ceiling);
  };
}

const plan::Changes kHalfTheBatch = {{"train.batch", "4"}, {"train.micro_steps", "2"}};

recipe::Recipe batch_of_eight(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"train.batch=8", "ladder.rungs=[batch]"};
  settings.insert(settings.end(), more.begin(), more.end());
  return testing_support::wide_activations_recipe(settings);
}

// What half of the batch needs in loops has failed. Planning without the failure would take loops again: that blocks
// are unrolled is a change to remember, and is named with the rung's own.
TEST(LadderTest, BelowACeilingUnrolledBlocksAreAChange) {
  const MakeEstimate make = with_loops_by_plan();
  const recipe::Recipe recipe = batch_of_eight();
  const Estimate first = make(recipe, {}), half = make(with_changes(recipe, kHalfTheBatch), {});
  ASSERT_EQ(first.recipe().xla.loops, recipe::XlaLoops::on);
  ASSERT_EQ(half.recipe().xla.loops, recipe::XlaLoops::on);
  const Ceiling ceiling{half.fit.worst().needed()};
  const LadderPath path = walk_ladder(first, make, ceiling);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_TRUE(path.found->is_unrolled());
  EXPECT_LT(path.found->fit.worst().needed(), ceiling.bytes);
  EXPECT_EQ(to_text(path.changes), "train.batch=4 train.micro_steps=2 xla.loops=off");
  EXPECT_EQ(path.attempts.back().changes, path.changes) << to_text(path);
  EXPECT_EQ(changed_text(recipe, path.changes),
            "train.batch=4 (was 8), train.micro_steps=2 (was 1), xla.loops=off (was auto)");
  const Estimate again = make(with_changes(first.requested(), path.changes), {});
  EXPECT_EQ(again.recipe(), path.found->recipe()) << "the changes alone lead there";
  EXPECT_EQ(again.lane, path.found->lane);
  EXPECT_EQ(again.fit.worst().needed(), path.found->fit.worst().needed());
}

TEST(LadderTest, BelowACeilingLoopsThatAreEnoughStay) {
  const MakeEstimate make = with_loops_by_plan();
  const recipe::Recipe recipe = batch_of_eight();
  const Estimate first = make(recipe, {});
  const LadderPath path = walk_ladder(first, make, {first.fit.worst().needed()});
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_EQ(path.found->recipe().xla.loops, recipe::XlaLoops::on);
  EXPECT_EQ(path.changes, kHalfTheBatch) << to_text(path);
}

// The limit is there for the next plan too, which decides the same by itself.
TEST(LadderTest, WhatALimitUnrollsIsNoChangeOfTheLadders) {
  const recipe::Recipe recipe = batch_of_eight();
  const Estimate half = with_loops_by_plan()(with_changes(recipe, kHalfTheBatch), {});
  const MakeEstimate make = with_loops_by_plan(half.fit.worst().reservation.least - 1);
  const Estimate first = make(recipe, {});
  ASSERT_FALSE(first.fit.may_fit());
  const LadderPath path = walk_ladder(first, make);
  ASSERT_TRUE(path.found) << to_text(path);
  EXPECT_TRUE(path.found->is_unrolled());
  EXPECT_EQ(path.found->loops->looped_bytes, half.fit.worst().needed());
  EXPECT_EQ(path.changes, kHalfTheBatch) << to_text(path);
  EXPECT_TRUE(make(with_changes(first.requested(), path.changes), {}).is_unrolled());
}

// A recipe that wants loops gets them from the ladder too.
TEST(LadderTest, BelowACeilingTheRecipesOwnLoopsStay) {
  const MakeEstimate make = with_loops_by_plan();
  const recipe::Recipe recipe = batch_of_eight({"xla.loops=on"});
  const int64_t half = make(with_changes(recipe, kHalfTheBatch), {}).fit.worst().needed();
  const LadderPath path = walk_ladder(make(recipe, {}), make, {half});
  EXPECT_FALSE(path.found) << to_text(path);
  EXPECT_EQ(to_text(path).find("xla.loops"), std::string::npos) << to_text(path);
}

}  // namespace
}  // namespace megacpp::fit
