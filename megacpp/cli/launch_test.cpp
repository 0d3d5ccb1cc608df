// SPDX-License-Identifier: Apache-2.0
// Launches that run out of memory, as a user sees them: what the ladder changes, what stays, what is remembered.
#include "megacpp/run/launch/launch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/cli/train_start.h"
#include "megacpp/hardware/fit/misfit.h"
#include "megacpp/hardware/fit/signature.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/plugins/nvidia_devices.h"
#include "megacpp/machine/plugins/oom_message.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/launch/assumptions.h"
#include "megacpp/run/launch/build.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tpu_messages.h"

namespace megacpp::cli {

namespace plugins = runtime::plugins;

namespace {

using testing_support::CommandResult;
using testing_support::TemporaryFolder;
using testing_support::Variable;

class LaunchTest : public testing::Test {
 protected:
  // Kernels take scratch memory by the number of threads, and what a rung reduces depends on it. Nothing is recomputed
  // but by a rung, so that the rungs have all to do.
  CommandResult train(std::vector<std::string> settings, const std::vector<std::string>& more = {"--json"}) {
    settings.insert(settings.begin(), {"train.steps=2", "train.sequence=64", "model.depth=2", "data.text=[docs]",
                                       "train.threads=2", "train.recompute.A=none", "train.recompute.E=none"});
    return testing_support::run_command(testing_support::on_recipe("train", "nam52-tiny.yaml", settings, more));
  }

  Json trained(std::vector<std::string> settings) {
    const CommandResult result = train(std::move(settings));
    EXPECT_EQ(result.status, 0) << result.err;
    err_ = result.err;
    return Json::parse(result.out);
  }

  std::string peak_less(double share) {
    const Json whole = trained({"hardware.limit=8GiB"});
    return "hardware.limit=" + std::to_string(static_cast<int64_t>(share * whole["planned_peak_bytes"].get<double>()));
  }

  TemporaryFolder folder_;
  Variable catalog_{"MEGACPP_CATALOG", (folder_ / "catalog.sqlite").string()};
  std::string err_;
};

TEST_F(LaunchTest, ASmallerBatchKeepsTheGlobalOneAndTheLoss) {
  const Json whole = trained({});
  const Json fitted = trained({peak_less(0.8)});
  EXPECT_EQ(fitted["rung"], 1);
  EXPECT_EQ(fitted["changes"], "train.batch=4 train.micro_steps=2");
  EXPECT_NE(err_.find("runs with train.batch=4 (was 8), train.micro_steps=2 (was 1)"), std::string::npos) << err_;
  EXPECT_EQ(fitted["changes_experiment"], false);
  EXPECT_EQ(fitted["regime"], "memory or context") << "memory decided what runs";
  for (size_t step = 0; step < 2; ++step)
    EXPECT_NEAR(fitted["losses"][step].get<double>() / whole["losses"][step].get<double>(), 1, 1e-4);
}

TEST_F(LaunchTest, TheSecondLaunchStartsAtTheRememberedRung) {
  const std::string limit = peak_less(0.8);
  trained({limit});
  EXPECT_NE(err_.find("ladder     "), std::string::npos) << err_;
  const Json again = trained({limit});
  EXPECT_EQ(again["rung"], 1);
  EXPECT_NE(err_.find("starting there"), std::string::npos) << err_;
  EXPECT_EQ(err_.find("ladder     "), std::string::npos) << "nothing is tried again\n" << err_;
}

TEST_F(LaunchTest, WhatThePolicyDoesNotOfferIsNotTakenFromTheCatalog) {
  const std::string limit = peak_less(0.98);
  trained({limit});
  const CommandResult strict = train({limit, "ladder.rungs=[]"});
  EXPECT_EQ(strict.status, 3) << strict.err;
  EXPECT_NE(strict.err.find("which ladder.rungs does not offer now"), std::string::npos) << strict.err;
  EXPECT_EQ(trained({limit, "ladder.rungs=[recompute]"})["changes"].get<std::string>().find("train.batch"),
            std::string::npos);
}

TEST_F(LaunchTest, ARememberedShorterSequenceIsStillAnotherExperiment) {
  const std::vector<std::string> tight = {peak_less(0.55), "train.batch=1", "train.sequence=256",
                                          "ladder.rungs=[batch, sequence]"};
  EXPECT_EQ(trained(tight)["changes_experiment"], true) << err_;
  EXPECT_EQ(trained(tight)["changes_experiment"], true) << err_;
  EXPECT_NE(err_.find("starting there"), std::string::npos) << err_;
  EXPECT_NE(err_.find(" tokens, not 256 as requested: losses of this run are another experiment's"), std::string::npos)
      << err_;
}

// A launch beside a large program learns nothing about one that has the machine for itself.
TEST_F(LaunchTest, WhatFitsByEstimateTodayIsTriedAsRequested) {
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                   std::vector<std::string>{"train.steps=1", "train.recompute.A=none", "train.recompute.E=none"});
  launch::Launch today(recipe, {});
  today.prepare();
  const catalog::Signature requested =
      fit::signature_of(recipe, "host:1", launch::build_of(recipe, launch::slice_named("host:1")));
  catalog::Catalog catalog = catalog::Catalog::open(folder_ / "catalog.sqlite");
  const auto launch_after = [&](const char* phase) {
    catalog.record({.signature = requested, .at = "2026-11-15T00:00:00Z", .fits = false, .phase = phase});
    catalog.remember_start(requested, {.at = "2026-11-15T00:00:00Z", .rung = 1, .settings = {{"train.batch", "4"}}});
    launch::Launch next(recipe, {});
    next.prepare();
    return next.rung();
  };
  EXPECT_EQ(launch_after(fit::kPlanningPhase), 0u);
  EXPECT_EQ(launch_after("run step 0"), 1u) << "no estimate foresaw that";
}

TEST_F(LaunchTest, AFailureInStepZeroTakesAllChipsDown) {
  const Json run = trained({"layout.data_parallel=2", "hardware.fail_allocation=[chip 1 step 0]"});
  EXPECT_EQ(run["rung"], 1);
  EXPECT_NE(err_.find("all chips go down together"), std::string::npos) << err_;
  EXPECT_EQ(run["losses"].size(), 2u);
}

TEST_F(LaunchTest, AFailureAtLoadGoesTheSameWay) {
  EXPECT_EQ(trained({"layout.data_parallel=2", "hardware.fail_allocation=[chip 0 step load]"})["rung"], 1);
}

TEST_F(LaunchTest, BehindTheWindowTheRunEndsWithAReport) {
  const CommandResult result = train({"layout.data_parallel=2", "hardware.fail_allocation=[chip 1 step 1]"});
  EXPECT_EQ(result.status, 3);
  EXPECT_NE(result.err.find("error E2004"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("chip 1: data 1 on host "), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("ladder     "), std::string::npos) << "no ladder\n" << result.err;
}

// Every class of failure, as printed and as kept: model and pattern, shape, layout, what was tried.
TEST_F(LaunchTest, EveryReportSaysWhatRanAndWhatWasTried) {
  struct Case {
    std::vector<std::string> settings;
    const char* cls;
    std::string outcome;
  };
  const std::vector<std::string> fault = {"layout.data_parallel=2", "ladder.rungs=[batch]", "train.batch=2"};
  const auto with_fault = [&](const char* at) {
    std::vector<std::string> settings = fault;
    settings.push_back(std::string("hardware.fail_allocation=[chip 1 step ") + at + "]");
    return settings;
  };
  for (const auto& [settings, cls, outcome] :
       {Case{{"ladder.rungs=[batch]", "train.batch=1", peak_less(0.45)}, "compile-time HBM", "skipped"},
        Case{with_fault("compile"), "compile-time HBM", "refused"}, Case{with_fault("load"), "program load", "refused"},
        Case{with_fault("0"), "runtime allocation", "refused"}}) {
    const CommandResult result = train(settings);
    EXPECT_EQ(result.status, 3) << result.err;
    for (const std::string& part :
         {std::string("memory     model nam52-tiny, pattern AE, depth 2, hidden 128"),
          std::string("memory     shape batch "), std::string("memory     layout policy=spmd"),
          std::string("memory     ") + cls, "memory     tried rung 1 batch " + outcome,
          std::string("running nam52-tiny (pattern AE, depth 2")})
      EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
    const Json list = Json::parse(testing_support::run_command({"catalog", "list", "--json"}).out);
    const std::string id = std::to_string(list["entries"][0]["id"].get<int64_t>());
    const Json shown = Json::parse(testing_support::run_command({"catalog", "show", id, "--json"}).out);
    const Json report = shown["launches"].back()["report"];
    EXPECT_EQ(report["class"], cls);
    EXPECT_EQ(report["subject"]["pattern"], "AE");
    EXPECT_EQ(report["subject"]["sequence"], 64);
    EXPECT_EQ(report["reductions"][0]["outcome"], outcome);
    EXPECT_FALSE(report["largest"].empty());
    const CommandResult text = testing_support::run_command({"catalog", "show", id});
    for (const std::string& part : {std::string("model nam52-tiny, pattern AE, depth 2"),
                                    "tried rung 1 batch " + outcome, std::string("out of memory on ")})
      EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
}

// A reduction that was taken and failed when it ran is in the report of the next failure.
TEST_F(LaunchTest, AReductionThatFailedWhenRunIsKeptAsSuch) {
  const CommandResult result = train({"layout.data_parallel=2", "ladder.rungs=[batch]", "train.batch=4",
                                      "hardware.fail_allocation=[chip 0 step 0, chip 1 step 0]"});
  EXPECT_EQ(result.status, 3) << result.err;
  EXPECT_NE(result.err.find("ran out of memory when run: runtime allocation"), std::string::npos) << result.err;
}

TEST_F(LaunchTest, WhatAnotherBuildLearntIsEstimatedAgain) {
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                   std::vector<std::string>{"train.steps=1", "train.recompute.A=none", "train.recompute.E=none"});
  std::vector<std::string> said;
  const auto keep = [&](const launch::Line& line) { said.push_back(line.text); };
  const auto rung_after = [&](const catalog::Build& build) {
    const catalog::Signature requested = fit::signature_of(recipe, "host:1", build);
    catalog::Catalog catalog = catalog::Catalog::open(folder_ / "catalog.sqlite");
    catalog.record({.signature = requested, .at = "2026-11-15T00:00:00Z", .fits = false, .phase = "run step 0"});
    catalog.remember_start(requested, {.at = "2026-11-15T00:00:00Z", .rung = 1, .settings = {{"train.batch", "4"}}});
    launch::Launch next(recipe, {}, keep);
    next.prepare();
    return next.rung();
  };
  EXPECT_EQ(rung_after({.code_version = "0.0.9+feed"}), 0u);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("by another build or machine, 0.0.9+feed"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("starting as requested"), std::string::npos) << said[0];
  EXPECT_EQ(rung_after(launch::build_of(recipe, launch::slice_named("host:1"))), 1u) << "its own is trusted";
  const Json list = Json::parse(testing_support::run_command({"catalog", "list", "--json"}).out);
  EXPECT_EQ(list["entries"].size(), 2u);
  EXPECT_NE(list["entries"][0]["this_build"], list["entries"][1]["this_build"]);
  EXPECT_NE(testing_support::run_command({"catalog", "list"}).out.find("another *"), std::string::npos);
}

TEST_F(LaunchTest, WhatNamesThingsThatAreNotThereIsShownAndNotUsed) {
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                   std::vector<std::string>{"train.steps=1", "train.recompute.A=none", "train.recompute.E=none"});
  catalog::Signature requested =
      fit::signature_of(recipe, "host:1", launch::build_of(recipe, launch::slice_named("host:1")));
  {
    catalog::Catalog catalog = catalog::Catalog::open(folder_ / "catalog.sqlite");
    catalog.record({.signature = requested, .fits = false, .phase = "run step 0"});
    catalog.remember_start(requested, {.rung = 1, .settings = {{"train.batch", "many"}}});
    catalog.remember_start(requested, {.rung = 1, .settings = {{"layout.warp_parallel", "2"}}});
    requested.hardware = "mi300:8";
    requested.features = "letter.D=E letter.G=Q optimizer=lion placement=elsewhere";
    requested.shape = "batch=8 recompute.A=twice recompute.D=full recompute.K=full";
    requested.layout = "policy=other warp=3";
    catalog.record_calibration({.signature = requested,
                                .lane = "rocm mi300",
                                .quantity = catalog::kPeakBytes,
                                .parts = {{"weights", 1}},
                                .measured = 1});
  }
  launch::Launch next(recipe, {});
  next.prepare();
  EXPECT_EQ(next.rung(), 0u);
  EXPECT_EQ(testing_support::run_command({"catalog", "list"}).status, 0);
  const CommandResult shown = testing_support::run_command({"catalog", "show", "2"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  for (const char* part : {"mi300:8", "optimizer.name=lion", "xla.placement=elsewhere", "train.recompute.A=twice",
                           "layout.policy=other", "layout.warp=3", "backend=rocm", "which this build does not have",
                           "model.letters.G, of a block family", "train.recompute.K=full, a letter"})
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << "\n" << shown.out;
  for (const char* known : {"names train.recompute.D", "names model.letters.D"})
    EXPECT_EQ(shown.out.find(known), std::string::npos) << "D is of a family that is here\n" << shown.out;
}

TEST_F(LaunchTest, TheStartIsASummaryAndVerboseHasTheRecipe) {
  const CommandResult brief = train({"layout.data_parallel=2"});
  const std::string start = brief.err.substr(0, brief.err.find("step     1/2"));
  EXPECT_LE(std::count(start.begin(), start.end(), '\n'), 10) << start;
  for (const char* part : {"model      nam52-tiny, pattern AE, depth 2", "parameters",
                           "layout     policy=spmd data_parallel=2", "2 chips: data=2", "hardware   host:2",
                           "plan       chip ", "backend    cpu, 2 threads", "data       ", "schedule   2 steps of "})
    EXPECT_NE(start.find(part), std::string::npos) << part << "\n" << start;
  EXPECT_EQ(start.find("optimizer:"), std::string::npos) << start;
  EXPECT_NE(Json::parse(brief.out)["recipe"].get<std::string>().find("optimizer:"), std::string::npos);
  EXPECT_NE(train({}, {"--verbose"}).err.find("optimizer:\n"), std::string::npos);
}

// What devices of a plugin have is not known before it is loaded: no number stands for it.
TEST_F(LaunchTest, WithoutAKnownLimitNoneIsPrinted) {
  const std::string device = runtime::plugins::nvidia_device_name();
  if (!device.empty()) GTEST_SKIP() << "chips of this machine are known: they call themselves " << device;
  const std::string file = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml";
  const auto plan_line = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), {"backend=xla", "xla.plugin=cuda", "model.depth=2"});
    launch::Launch launch(recipe::load(file, settings), {.none = true});
    launch.prepare();
    const std::string text = start_text(launch, launch.estimate().compiled, data::TextCorpus());
    const size_t at = text.find("plan       ");
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_TRUE(plan_line({}).ends_with(", no limit known")) << plan_line({});
  EXPECT_TRUE(plan_line({"hardware.limit=4GiB"}).ends_with(" of 4.00 GiB")) << plan_line({"hardware.limit=4GiB"});
}

// Whoever makes it small enough meets that next.
TEST_F(LaunchTest, WhereDevicesAreMissingThatComesBeforeWhatTheyLack) {
  if (runtime::backend_named("cuda").usable({})) GTEST_SKIP() << "a GPU is here";
  const CommandResult result = train({"backend=cuda", "hardware.target=h100:1", "model.hidden=65536",
                                      "model.attention.heads=512", "model.feed_forward.intermediate=262144"});
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_NE(result.err.find("error E1508"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("E2001"), std::string::npos) << result.err;
}

TEST_F(LaunchTest, FaultsTeachNothingAboutLaunchesWithout) {
  trained({"layout.data_parallel=2", "hardware.fail_allocation=[chip 1 step 0]"});
  EXPECT_EQ(trained({"layout.data_parallel=2"})["rung"], 0);
}

// A fault is answered once, by the first launch: the others start with its answer.
TEST_F(LaunchTest, TheSameFaultInStepZeroLeadsSevenLaunchesToTheSameSettings) {
  using Settings = std::vector<std::string>;
  for (const Settings& settings : {Settings{"hardware.fail_allocation=[chip 0 step 0]"},
                                   Settings{"hardware.fail_allocation=[chip 0 step load, chip 0 step 0]"},
                                   Settings{"hardware.fail_allocation=[chip 0 step 0]", "train.recompute=auto"}}) {
    const Json first = trained(settings);
    EXPECT_GT(first["rung"], 0);
    for (int launch = 2; launch <= 7; ++launch) {
      const Json again = trained(settings);
      EXPECT_EQ(again["rung"], first["rung"]) << "launch " << launch;
      EXPECT_EQ(again["changes"], first["changes"]) << "launch " << launch;
      EXPECT_EQ(again["losses"], first["losses"]) << "launch " << launch;
      EXPECT_NE(err_.find("starting there"), std::string::npos) << err_;
    }
  }
}

TEST_F(LaunchTest, EveryFaultOfTheListFiresOnce) {
  const CommandResult result =
      train({"hardware.fail_allocation=[chip 0 step compile, chip 0 step load, chip 0 step 0, chip 0 step 1]"});
  EXPECT_EQ(result.status, 3);
  size_t after = 0;
  for (const char* part :
       {"ran out of memory (compile-time HBM): all chips go down", "ran out of memory (program load)",
        "ran out of memory (runtime allocation)", "error E2004"}) {
    const size_t at = result.err.find(part, after);
    EXPECT_NE(at, std::string::npos) << part << "\n" << result.err;
    EXPECT_EQ(result.err.find(part, at + 1), std::string::npos) << part << " twice\n" << result.err;
    after = std::min(at, result.err.size());
  }
  EXPECT_NE(result.err.find("step 1", after), std::string::npos) << "the last ends the run\n" << result.err;
}

// The remembered start has answered what fired until step 0; what fires later still does.
TEST_F(LaunchTest, AFaultAfterStepZeroFiresInEveryLaunch) {
  const std::vector<std::string> settings = {"hardware.fail_allocation=[chip 0 step 0, chip 0 step 1]"};
  for (int launch = 1; launch <= 2; ++launch) {
    const CommandResult result = train(settings);
    EXPECT_EQ(result.status, 3) << result.err;
    EXPECT_NE(result.err.find("error E2004"), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("starting there") != std::string::npos, launch == 2) << result.err;
  }
}

TEST_F(LaunchTest, WhereNothingFitsTheFrontierIsSaidAndKept) {
  // State leaves the batch some memory, but not enough for one sequence.
  const CommandResult result = train({"ladder.rungs=[batch]", "train.batch=1", peak_less(0.45)});
  EXPECT_EQ(result.status, 3);
  for (const char* part : {"rung 1 batch      skipped", "nothing fits; the least is ", "error E2001"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
  const CommandResult listed = testing_support::run_command({"catalog", "list"});
  EXPECT_NE(listed.out.find("fails (compile-time HBM)"), std::string::npos) << listed.out;
}

TEST_F(LaunchTest, WhereNothingFitsTheErrorOffersTheLeast) {
  const CommandResult result = train({"ladder.rungs=[batch]", "train.batch=2", peak_less(0.45)});
  EXPECT_EQ(result.status, 3);
  const size_t next = result.err.find("  next:", result.err.find("error E"));
  ASSERT_NE(next, std::string::npos) << result.err;
  EXPECT_NE(result.err.find("run with train.batch=1 (was 2), train.micro_steps=2 (was 1), the least", next),
            std::string::npos)
      << result.err;
}

TEST_F(LaunchTest, WithoutACatalogALaunchGoesOn) {
  const Variable nowhere("MEGACPP_CATALOG", "/proc/no/catalog.sqlite");
  EXPECT_EQ(trained({})["rung"], 0);
  EXPECT_NE(err_.find("catalog    not used"), std::string::npos) << err_;
  const CommandResult result = train({}, {"--no-catalog"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err.find("catalog    "), std::string::npos) << result.err;
}

TEST_F(LaunchTest, UnknownRungsAreRefusedWithTheNearest) {
  const CommandResult result = train({"ladder.rungs=[bach]"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("did you mean 'batch'?"), std::string::npos) << result.err;
}

// The compiler judges our plan for the slice: a rung must need less by as much as the compiler found too much.
TEST_F(LaunchTest, WhatTheTpuCompilerRefusesGoesDownTheLadder) {
  const recipe::Recipe recipe =
      recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml",
                   std::vector<std::string>{"backend=xla", "xla.plugin=tpu", "hardware.target=v6e:2x2",
                                            "layout.data_parallel=4", "train.batch=2048"});
  for (const char* text : {testing_support::kLongTpuMessage, testing_support::kShortTpuMessage}) {
    const plugins::OomMessage message =
        plugins::read_oom_message(text, {.during = memory::OomClass::compile, .platform = plugins::PluginKind::tpu});
    launch::Launch launch(recipe, {});
    launch.prepare();
    ASSERT_EQ(launch.rung(), 0u) << "by estimate it fits";
    const double requested = static_cast<double>(launch.estimate().fit.worst().needed());
    const double too_much = static_cast<double>(*message.used) / static_cast<double>(*message.limit);
    launch.step_down(plugins::out_of_memory(message, recipe.name));
    EXPECT_EQ(launch.rung(), 1u);
    EXPECT_LT(static_cast<double>(launch.estimate().fit.worst().needed()), requested / too_much);
    EXPECT_EQ(launch.recipe().train.batch * launch.recipe().train.micro_steps, 2048);
  }
  const auto entries = catalog::Catalog::open(folder_ / "catalog.sqlite").entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].signature.hardware, "v6e:2x2");
  EXPECT_EQ(entries[0].outcomes.size(), 2u);
  EXPECT_EQ(entries[0].outcomes[0].oom_class, "compile-time HBM");
}

// Each is a process of its own, as two users' launches are.
TEST_F(LaunchTest, TwoLaunchesShareOneCatalog) {
  const std::string limit = peak_less(0.8);
  std::vector<pid_t> children;
  for (int launch = 0; launch < 2; ++launch) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(train({limit}).status);
    ASSERT_GT(child, 0);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(trained({limit})["rung"], 1);
  EXPECT_NE(err_.find("starting there"), std::string::npos) << err_;
  int64_t starts = 0, failures = 0;
  for (const catalog::Entry& entry : catalog::Catalog::open(folder_ / "catalog.sqlite").entries()) {
    starts += static_cast<int64_t>(entry.starts.size());
    for (const catalog::Outcome& outcome : entry.outcomes) failures += !outcome.fits;
  }
  EXPECT_EQ(starts, failures) << "a launch that went down the ladder wrote down where it ended";
  EXPECT_GE(failures, 1);
  EXPECT_LE(failures, 2) << "the second may have found what the first remembered";
}

}  // namespace
}  // namespace megacpp::cli
