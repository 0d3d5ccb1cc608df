// SPDX-License-Identifier: Apache-2.0
// Which backend runs on which hardware, and what a search offers there: all from the records.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/hardware/fit/search.h"
#include "megacpp/hardware/hw/slice.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/machine/xla/reserve.h"
#include "megacpp/program/recipe/recompute.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/users_catalog.h"
#include "tests/support/assumptions.h"
#include "tests/support/errors.h"

namespace megacpp::testing_support {
namespace {

using hw::ChipKind;

/// The largest degree of a pipeline among what is legal for the backend of the hardware.
int64_t deepest_pipeline(const std::string& hardware, const std::vector<runtime::Backend>& backends) {
  const hw::Slice slice = test_assumptions(hardware).slice;
  const runtime::Backend& backend = runtime::backend_on(slice.chip.kind, "cpu", backends);
  int64_t deepest = 0;
  for (const fit::LayoutChoice& choice :
       fit::legal_layouts(test_recipe(), slice.devices(), fit::SplitSequences::no, backend.cannot_run).legal)
    deepest = std::max(deepest, choice.pipeline);
  return deepest;
}

/// The backends there are, and before them one for GPUs alone that runs everything.
std::vector<runtime::Backend> with_one_for_gpus() {
  std::vector<runtime::Backend> backends = {{.name = "test-gpu", .runs_on = {ChipKind::gpu}}};
  backends.insert(backends.end(), runtime::all_backends().begin(), runtime::all_backends().end());
  return backends;
}

TEST(BackendHardwareTest, IsTheRecipesWhereItRunsElseTheFirstThatDoes) {
  EXPECT_EQ(runtime::backend_on(ChipKind::host, "cpu").name, "cpu");
  EXPECT_EQ(runtime::backend_on(ChipKind::host, "xla").name, "xla");
  EXPECT_EQ(runtime::backend_on(ChipKind::gpu, "cpu").name, "xla");
  EXPECT_EQ(runtime::backend_on(ChipKind::gpu, "cuda").name, "cuda");
  EXPECT_EQ(runtime::backend_on(ChipKind::tpu, "cuda").name, "xla");
  EXPECT_EQ(runtime::backend_on(ChipKind::tpu, "cpu").name, "xla");
  EXPECT_EQ(runtime::backend_on(ChipKind::gpu, "cpu", with_one_for_gpus()).name, "test-gpu");
  EXPECT_EQ(runtime::backend_on(ChipKind::gpu, "xla", with_one_for_gpus()).name, "xla");
  const std::vector<runtime::Backend> none;
  problem_of(base::Code::E1505, [&] { runtime::backend_on(ChipKind::tpu, "cpu", none); });
}

TEST(BackendHardwareTest, PipelinesAreOfferedWhereTheBackendOfTheHardwareRunsThem) {
  for (const char* hardware : {"h100:8", "h200:8", "v6e:2x4"})
    EXPECT_EQ(deepest_pipeline(hardware, runtime::all_backends()), 1) << hardware;
  EXPECT_GT(deepest_pipeline("host:8", runtime::all_backends()), 1);
  EXPECT_GT(deepest_pipeline("h100:8", with_one_for_gpus()), 1);
  EXPECT_EQ(deepest_pipeline("v6e:2x4", with_one_for_gpus()), 1);
}

TEST(BackendHardwareTest, ASearchAndAnEstimateGoByTheBackendOfTheHardware) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  for (const char* hardware : {"h100:4", "v6e:2x2"}) {
    const recipe::Recipe recipe = test_recipe();
    const fit::Assumptions assumptions = launch::assumptions_for(recipe, hw::parse_target(hardware), none);
    EXPECT_EQ(assumptions.lane.backend, "xla");
    const fit::LayoutSearch search = fit::search_layouts(recipe, assumptions, {.tries = 8});
    ASSERT_FALSE(search.found.empty());
    for (const fit::Found& one : search.found) EXPECT_EQ(one.recipe.layout.pipeline_parallel, 1) << one.layout;
    EXPECT_TRUE(std::ranges::any_of(search.dropped, [](const fit::Dropped& one) {
      return one.reason.find("no pipeline stages") != std::string::npos;
    }));
    const base::Problem problem = problem_of(base::Code::E1505, [&] {
      fit::make_estimate(test_recipe({"layout.pipeline_parallel=2", "layout.data_parallel=2"}), assumptions);
    });
    EXPECT_EQ(problem.got, "backend xla");
  }
}

TEST(BackendHardwareTest, LanesOfOneBackendDifferByWhoPlacesCollectives) {
  const hw::Slice slice = hw::parse_target("v6e:2x2");
  EXPECT_EQ(fit::to_text(launch::lane_on(slice, test_recipe())), "xla v6e placement=megacpp");
  EXPECT_EQ(fit::to_text(launch::lane_on(slice, test_recipe({"xla.placement=xla"}))), "xla v6e placement=xla");
  EXPECT_EQ(fit::to_text(launch::lane_on(test_assumptions("host:2").slice, test_recipe({"xla.placement=xla"}))),
            "cpu host");
}

// Steps in loops and unrolled ones differ there, and a plan without the plugin is of what runs with it.
TEST(BackendHardwareTest, LanesOfXlaOnGpusDifferByLoops) {
  const hw::Slice slice = hw::parse_target("h200:1");
  const auto lane = [&](const std::vector<std::string>& settings) {
    return fit::to_text(launch::lane_on(slice, test_recipe(settings)));
  };
  EXPECT_EQ(lane({"backend=xla"}), "xla h200 placement=megacpp loops=off");
  EXPECT_EQ(lane({"backend=xla", "xla.plugin=cuda"}), "xla h200 placement=megacpp loops=off");
  EXPECT_EQ(lane({"backend=xla", "xla.loops=on"}), "xla h200 placement=megacpp loops=on");
  EXPECT_EQ(lane({"backend=xla", "xla.loops=on", "model.depth=2"}), "xla h200 placement=megacpp loops=off")
      << "no block repeats";
  EXPECT_EQ(lane({"backend=cuda", "xla.loops=on"}), "cuda h200");
}

// What every recipe gets there unless it or a plan says otherwise is not named.
TEST(BackendHardwareTest, LanesOfTpusNameUnrolledBlocks) {
  const hw::Slice slice = hw::parse_target("v6e:2x2");
  const auto lane = [&](const std::vector<std::string>& settings) {
    return fit::to_text(launch::lane_on(slice, test_recipe(settings)));
  };
  EXPECT_EQ(lane({"xla.loops=on"}), lane({}));
  EXPECT_EQ(lane({"xla.loops=off"}), "xla v6e placement=megacpp loops=off");
  EXPECT_EQ(lane({"xla.loops=off", "model.depth=2"}), lane({})) << "no block repeats";
}

// Planning may unroll blocks where the recipe leaves it open and a rule says what they need.
TEST(BackendHardwareTest, TpuPlansKnowTheLaneOfUnrolledBlocks) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const auto assumptions = [&](const char* hardware, std::vector<std::string> settings) {
    settings.insert(settings.end(), {"backend=xla", "train.precision=bf16"});
    return launch::assumptions_for(test_recipe(settings), hw::parse_target(hardware), none);
  };
  const fit::Assumptions open = assumptions("v6e:2x2", {});
  ASSERT_TRUE(open.unrolled);
  EXPECT_EQ(open.unrolled->lane, assumptions("v6e:2x2", {"xla.loops=off"}).lane);
  EXPECT_EQ(open.unrolled->features, assumptions("v6e:2x2", {"xla.loops=off"}).features);
  EXPECT_NE(open.unrolled->features, open.features);
  EXPECT_FALSE(assumptions("v6e:2x2", {"xla.loops=on"}).unrolled);
  EXPECT_FALSE(assumptions("v6e:2x2", {"xla.placement=xla"}).unrolled) << "no rule";
  EXPECT_FALSE(assumptions("v6e:2x2", {"model.depth=2"}).unrolled) << "nothing repeats";
  EXPECT_FALSE(assumptions("v5e:2x2", {}).unrolled) << "its file says nothing";
  EXPECT_FALSE(assumptions("h200:1", {}).unrolled);
}

// What its client is told to take (machine/xla/pjrt/process_part); kernels of ours and TPUs have all that programs may
// use.
TEST(BackendHardwareTest, OnGpusXlaHasItsPoolAlone) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const auto limit = [&](const char* hardware, const char* backend, int64_t sharers = 1) {
    const recipe::Recipe recipe = test_recipe({backend, "train.precision=bf16"});
    const runtime::FoundHardware found{.slice = hw::parse_target(hardware), .sharers = sharers};
    const fit::Assumptions assumptions =
        launch::assumptions_for(recipe, found, none, runtime::mesh_here(recipe::run_request(recipe), 1));
    EXPECT_EQ(assumptions.slice.chip.usable_bytes, found.slice.chip.usable_bytes) << "a fact of the chip";
    return fit::pool_of(assumptions.slice.chip, assumptions.pool_share);
  };
  const int64_t usable = hw::parse_target("h200:1").chip.usable_bytes;
  EXPECT_EQ(limit("h200:1", "backend=xla"), std::llround(0.9 * static_cast<double>(usable)));
  EXPECT_EQ(limit("h200:1", "backend=xla", 3),
            std::llround(runtime::xla::gpu_pool_share(3) * static_cast<double>(usable)));
  EXPECT_EQ(limit("h200:1", "backend=cuda"), usable);
  EXPECT_EQ(limit("v6e:1x1", "backend=xla"), hw::parse_target("v6e:1x1").chip.usable_bytes);
}

TEST(BackendHardwareTest, NoLimitOfARecipeMakesThePoolLarger) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const auto limit = [&](const std::string& backend, int64_t own) {
    const recipe::Recipe recipe =
        test_recipe({"backend=" + backend, "train.precision=bf16", "hardware.limit=" + std::to_string(own)});
    const fit::Assumptions assumptions = launch::assumptions_for(recipe, hw::parse_target("h200:1"), none);
    return fit::make_estimate(recipe, assumptions).fit.worst().limit.bytes;
  };
  const int64_t usable = hw::parse_target("h200:1").chip.usable_bytes;
  const int64_t pool = std::llround(runtime::xla::gpu_pool_share(1) * static_cast<double>(usable));
  EXPECT_EQ(limit("xla", pool + 1), pool);
  EXPECT_EQ(limit("xla", pool - 1), pool - 1);
  EXPECT_EQ(limit("cuda", pool + 1), pool + 1) << "its kernels have no pool";
}

// What the chip's file says of compiled steps was measured with blocks unrolled.
TEST(BackendHardwareTest, OfStepsInLoopsOnAGpuLessIsKnown) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const auto estimate = [&](const char* hardware, const std::vector<std::string>& settings) {
    const recipe::Recipe recipe = test_recipe(settings);
    return fit::make_estimate(recipe, launch::assumptions_for(recipe, hw::parse_target(hardware), none));
  };
  const hw::Chip h200 = hw::parse_target("h200:1").chip;
  const fit::Estimate unrolled = estimate("h200:1", {"backend=xla", "train.precision=bf16"});
  const fit::Estimate looped = estimate("h200:1", {"backend=xla", "train.precision=bf16", "xla.loops=on"});
  const auto most_of_plan = [](const fit::Estimate& one) {
    return static_cast<double>(one.fit.worst().reservation.most) / static_cast<double>(one.fit.worst().planned);
  };
  EXPECT_NEAR(most_of_plan(unrolled), h200.xla.gaps_most, 1e-3);
  EXPECT_LT(unrolled.fit.worst().reservation.least, unrolled.fit.worst().planned);
  EXPECT_NEAR(most_of_plan(looped), h200.xla.loops_gaps_most, 1e-3);
  EXPECT_TRUE(unrolled.time.range.most.has_value());
  EXPECT_EQ(looped.time.range.most, std::nullopt);
  EXPECT_EQ(looped.time.range.least, looped.time.limit);
  EXPECT_EQ(looped.time.range.open, fit::OpenEnd::loops);
  const auto level_of_e = [&](const char* loops) {
    const std::vector<std::string> settings = {"backend=xla", "train.precision=bf16", loops};
    const recipe::Recipe dense = recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", settings);
    const auto assumptions = launch::assumptions_for(dense, hw::parse_target("h200:1"), none);
    return base::text_of(recipe::recompute_level(fit::make_estimate(dense, assumptions).recipe(), 'E'));
  };
  EXPECT_EQ(level_of_e("xla.loops=auto"), "selective") << "which costs no time";
  EXPECT_EQ(level_of_e("xla.loops=on"), "none");
  const fit::Estimate by_cuda = estimate("h200:1", {"backend=cuda", "train.precision=bf16", "xla.loops=on"});
  EXPECT_FALSE(by_cuda.fit.worst().reservation.is_range());
  EXPECT_TRUE(by_cuda.time.range.most.has_value());
  const fit::Estimate on_h100 = estimate("h100:1", {"backend=xla", "train.precision=bf16", "xla.loops=on"});
  EXPECT_EQ(on_h100.time.range.open, fit::OpenEnd::no_steps) << "no whole step was measured there at all";
}

// XLA gets a masked copy of all rows for each expert, and no recorded step had any.
TEST(BackendHardwareTest, OfDroplessExpertsNoRuleSaysWhatIsReserved) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  for (const bool is_dropless : {false, true}) {
    const recipe::Recipe recipe =
        test_recipe({"train.precision=bf16", "xla.loops=on", "model.pattern=AE", "model.depth=4",
                     "model.feed_forward.experts=4", "model.feed_forward.top_k=2",
                     is_dropless ? "model.feed_forward.capacity_factor=0" : "model.feed_forward.capacity_factor=1.25"});
    const fit::Assumptions assumptions = launch::assumptions_for(recipe, hw::parse_target("v6e:1x1"), none);
    EXPECT_EQ(fit::make_estimate(recipe, assumptions).fit.worst().reservation.why.empty(), is_dropless);
  }
}

TEST(BackendHardwareTest, DevicesThatNobodyDescribesHaveNoLimitAndNoRates) {
  const runtime::Backend& xla = runtime::backend_named("xla");
  const recipe::Recipe cuda = test_recipe({"backend=xla", "xla.plugin=cuda", "layout.data_parallel=2"});
  EXPECT_EQ(xla.free_bytes(recipe::run_request(cuda)), std::nullopt);
  const runtime::FoundHardware found = xla.find_hardware(recipe::run_request(cuda), {});
  EXPECT_EQ(found.slice.name, "cuda:2");
  EXPECT_FALSE(found.has_rates);
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const fit::Estimate estimate = fit::make_estimate(
      cuda, launch::assumptions_for(cuda, found, none, runtime::mesh_here(recipe::run_request(cuda), 2)));
  EXPECT_EQ(estimate.fit.worst().limit.bytes, std::nullopt);
  EXPECT_EQ(estimate.fit.worst().free_bytes(), std::nullopt);
  EXPECT_TRUE(estimate.fit.fits());
  EXPECT_EQ(estimate.time.seconds(), 0);

  const recipe::Recipe described = test_recipe({"backend=xla", "xla.plugin=cuda", "hardware.target=h200:2"});
  EXPECT_EQ(xla.find_hardware(recipe::run_request(described), {}).slice.name, "h200:2");
  EXPECT_TRUE(xla.find_hardware(recipe::run_request(described), {}).has_rates);
}

runtime::FoundHardware found_by_name(const recipe::Recipe& recipe, const std::string& device_name) {
  return runtime::backend_named("xla").find_hardware(recipe::run_request(recipe), {.device_name = device_name});
}

TEST(BackendHardwareTest, DevicesAreTheChipThatTheyCallThemselves) {
  const recipe::Recipe cuda = test_recipe({"backend=xla", "xla.plugin=cuda", "layout.data_parallel=2"});
  const runtime::FoundHardware found = found_by_name(cuda, "NVIDIA H200");
  const hw::Slice named = hw::parse_target("h200:2");
  EXPECT_EQ(found.slice.name, named.name);
  EXPECT_EQ(found.slice.chip.usable_bytes, named.chip.usable_bytes);
  EXPECT_TRUE(found.has_rates);
  EXPECT_EQ(found.note, "h200:2: the devices call themselves NVIDIA H200");

  const recipe::Recipe described =
      test_recipe({"backend=xla", "xla.plugin=cuda", "layout.data_parallel=2", "hardware.target=h100:2"});
  EXPECT_EQ(found_by_name(described, "NVIDIA H200").slice.name, "h100:2") << "the recipe's word counts";
  EXPECT_EQ(found_by_name(described, "NVIDIA H200").note, "");
}

TEST(BackendHardwareTest, DevicesThatNoChipFileHasAreSaidToBeUnknown) {
  const recipe::Recipe cuda = test_recipe({"backend=xla", "xla.plugin=cuda", "layout.data_parallel=2"});
  for (const char* name : {"NVIDIA H200 NVL", "NVIDIA H200, NVIDIA T400"}) {
    const runtime::FoundHardware found = found_by_name(cuda, name);
    EXPECT_EQ(found.slice.name, "cuda:2");
    EXPECT_FALSE(found.has_rates);
    EXPECT_EQ(found.slice.chip.usable_bytes, 0);
    EXPECT_NE(found.note.find(name), std::string::npos) << found.note;
    EXPECT_NE(found.note.find("no chip file has that"), std::string::npos) << found.note;
    EXPECT_NE(found.note.find("hardware.target"), std::string::npos) << found.note;
  }
  const recipe::Recipe twelve =
      test_recipe({"backend=xla", "xla.plugin=cuda", "layout.data_parallel=12", "train.batch=12"});
  const runtime::FoundHardware found = found_by_name(twelve, "NVIDIA H200");
  EXPECT_EQ(found.slice.name, "cuda:12");
  EXPECT_NE(found.note.find("h200 does not come in 12"), std::string::npos) << found.note;
  EXPECT_EQ(found_by_name(cuda, "").note, "");
}

TEST(BackendHardwareTest, OnlyDevicesOfTheCudaPluginAreAskedForTheirName) {
  EXPECT_FALSE(runtime::backend_named("cpu").device_name);
  const runtime::Backend& xla = runtime::backend_named("xla");
  for (const char* plugin : {"cpu", "tpu"})
    EXPECT_EQ(xla.device_name(recipe::run_request(test_recipe({"backend=xla", std::string("xla.plugin=") + plugin}))),
              "");
  const recipe::Recipe host = test_recipe({"backend=xla", "xla.plugin=cpu", "layout.data_parallel=2"});
  EXPECT_EQ(found_by_name(host, "NVIDIA H200").slice.name, "host:2");
}

TEST(BackendHardwareTest, ARunOnAnH200TakesWhatWasMeasuredToBeFreeThere) {
  const recipe::Recipe dense =
      test_recipe({"backend=xla", "xla.plugin=cuda", "train.precision=bf16", "model.feed_forward.experts=0"});
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const auto level_on = [&](const char* device_name) {
    const fit::Assumptions assumptions = launch::assumptions_for(dense, found_by_name(dense, device_name), none,
                                                                 runtime::mesh_here(recipe::run_request(dense), 1));
    return base::text_of(recipe::recompute_level(fit::make_estimate(dense, assumptions).recipe(), 'E'));
  };
  EXPECT_EQ(level_on("NVIDIA H200"), "selective");
  EXPECT_EQ(level_on("NVIDIA H100 80GB HBM3"), "none");
  EXPECT_EQ(level_on("NVIDIA H200 NVL"), "none");
  EXPECT_EQ(level_on(""), "none");
}

// Kernels of ours and XLA's reach different shares of one chip.
TEST(BackendHardwareTest, APlanGoesByTheRatesOfItsLane) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const auto reached_by = [&](const std::string& backend) {
    const recipe::Recipe recipe = test_recipe({"backend=" + backend, "train.precision=bf16"});
    const double named = launch::slice_named("h200:1", backend).chip.reached.traffic;
    const fit::Assumptions assumptions = launch::assumptions_for(recipe, {.slice = hw::parse_target("h200:1")}, none,
                                                                 runtime::mesh_here(recipe::run_request(recipe), 1));
    EXPECT_EQ(assumptions.slice.chip.reached.traffic, named) << backend;
    return named;
  };
  const hw::Chip h200 = hw::parse_target("h200:1").chip;
  EXPECT_EQ(reached_by("xla"), h200.reached.traffic);
  EXPECT_EQ(reached_by("cpu"), h200.reached.traffic) << "XLA runs there";
  EXPECT_EQ(reached_by("cuda"), h200.reached_by.at("cuda").traffic);
}

// Without a call of cuDNN's kernel attention holds scores, which a plan on a GPU counts.
TEST(BackendHardwareTest, APlanHasTheAttentionThatTheRecipeAsksXlaFor) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const auto needed = [&](const char* attention) {
    const recipe::Recipe recipe =
        test_recipe({"backend=xla", "train.precision=bf16", "train.sequence=1024", "model.pattern=A", "model.depth=1",
                     std::string("xla.attention=") + attention});
    const fit::Assumptions assumptions = launch::assumptions_for(recipe, {.slice = hw::parse_target("h200:1")}, none,
                                                                 runtime::mesh_here(recipe::run_request(recipe), 1));
    return fit::make_estimate(recipe, assumptions).fit.worst().needed();
  };
  EXPECT_GT(needed("blocked"), needed("fused"));
}

// What XLA places itself has no offsets in a plan; our own kernels on the same chip run the plan itself.
TEST(BackendHardwareTest, APlanForOurOwnKernelsOnAGpuIsWhatRuns) {
  launch::UsersCatalog none({.none = true}, catalog::Access::read);
  const auto first_offsets = [&](const char* backend) {
    const recipe::Recipe recipe = test_recipe({std::string("backend=") + backend, "train.precision=bf16"});
    const fit::Assumptions assumptions = launch::assumptions_for(recipe, {.slice = hw::parse_target("h200:1")}, none,
                                                                 runtime::mesh_here(recipe::run_request(recipe), 1));
    return fit::make_estimate(recipe, assumptions).worst_memory().programs.front().value_offset.size();
  };
  EXPECT_EQ(first_offsets("xla"), 0U);
  EXPECT_GT(first_offsets("cuda"), 0U);
}

TEST(BackendHardwareTest, ChipsOfAProcessShareItsMachine) {
  const recipe::Recipe recipe = test_recipe({"layout.data_parallel=8"});
  const runtime::Backend& cpu = runtime::backend_named("cpu");
  const auto share = [&](int64_t local) {
    return cpu.find_hardware(recipe::run_request(recipe), {.free_bytes = 1 << 30, .local_chips = local}).slice;
  };
  EXPECT_EQ(share(8).chip.usable_bytes, (1 << 30) / 8);
  EXPECT_EQ(share(2).chip.usable_bytes, (1 << 30) / 2);
  EXPECT_EQ(share(2).devices(), 8);
  EXPECT_EQ(share(2).hosts(), 4);
}

TEST(BackendHardwareTest, AHostIsAsFastAsTheProbeOfItsBackendSays) {
  const hw::Slice host = launch::slice_named("host:2", "xla");
  const hw::HostRates rates = runtime::backend_named("xla").host_rates.kept();
  EXPECT_EQ(host.chip.peak("f32"), rates.matrix_flops / 2);
  EXPECT_EQ(host.chip.memory_bytes_per_second, rates.bytes_per_second / 2);
}

TEST(BackendHardwareTest, WordsOfItsOwnSettingsStandInSignatures) {
  const runtime::Backend& xla = runtime::backend_named("xla");
  EXPECT_EQ(xla.features(recipe::run_request(test_recipe())), (std::vector<std::string>{"placement=megacpp"}));
  EXPECT_EQ(xla.features(recipe::run_request(test_recipe(
                {"xla.placement=xla", "xla.attention=blocked", "xla.loops=off", "xla.flags=[cuda-overlap]"}))),
            (std::vector<std::string>{"placement=xla", "attention=blocked", "loops=off", "flag=cuda-overlap"}));
}

// What is learnt under one spelling of the same program is known under the other.
TEST(BackendHardwareTest, SignaturesHaveLoopsAsTheyAreResolved) {
  const auto features = [](const std::vector<std::string>& settings) {
    return runtime::backend_named("xla").features(recipe::run_request(test_recipe(settings)));
  };
  EXPECT_EQ(features({"xla.loops=on"}), features({"xla.loops=auto"}));
  EXPECT_NE(features({"xla.loops=off"}), features({"xla.loops=auto"}));
  EXPECT_EQ(features({"xla.plugin=cuda", "xla.loops=off"}), features({"xla.plugin=cuda", "xla.loops=auto"}));
  EXPECT_NE(features({"xla.plugin=cuda", "xla.loops=on"}), features({"xla.plugin=cuda", "xla.loops=auto"}));
  EXPECT_EQ(features({"model.depth=2", "xla.loops=off"}), features({"model.depth=2"})) << "no block repeats";
}

TEST(BackendHardwareTest, CudaPlansForTheCardByItsNameAndForGpusThatAreNotHere) {
  const runtime::Backend& cuda = runtime::backend_named("cuda");
  const recipe::Recipe one = test_recipe({"backend=cuda"});
  const runtime::FoundHardware named = cuda.find_hardware(recipe::run_request(one), {.device_name = "NVIDIA H200"});
  EXPECT_EQ(named.slice.name, "h200:1");
  EXPECT_TRUE(named.has_rates);
  EXPECT_NE(named.note.find("call themselves NVIDIA H200"), std::string::npos) << named.note;
  const runtime::FoundHardware unknown =
      cuda.find_hardware(recipe::run_request(test_recipe({"backend=cuda", "layout.data_parallel=2"})), {});
  EXPECT_EQ(unknown.slice.name, "cuda:2");
  EXPECT_EQ(unknown.slice.chip.usable_bytes, 0);
  EXPECT_FALSE(unknown.has_rates);
  const recipe::Recipe described = test_recipe({"backend=cuda", "hardware.target=h100:4"});
  EXPECT_EQ(cuda.find_hardware(recipe::run_request(described), {.device_name = "NVIDIA H200"}).slice.name, "h100:4");
  EXPECT_EQ(fit::to_text(launch::lane_on(named.slice, one)), "cuda h200");
}

TEST(BackendHardwareTest, CudaTargetsAreMadeWithoutAGpu) {
  const runtime::Backend& cuda = runtime::backend_named("cuda");
  const schedule::Target target = cuda.target(recipe::run_request(test_recipe({"backend=cuda"})), {});
  EXPECT_EQ(target.name, "cuda");
  EXPECT_EQ(target.alignment, 256);
  EXPECT_EQ(cuda.estimates_with, "") << "the programs of an estimate are those that run";
}

}  // namespace
}  // namespace megacpp::testing_support
