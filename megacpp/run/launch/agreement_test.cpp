// SPDX-License-Identifier: Apache-2.0
// Launches of several processes: whatever one of them sees, all take the same rung.
#include "megacpp/run/launch/agreement.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <thread>

#include "megacpp/core/base/file.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/machine/plugins/plugin_fetch.h"
#include "megacpp/machine/runtime/fault_injection.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/run/checkpoint/reader.h"
#include "megacpp/run/checkpoint/writer.h"
#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/launch/launch.h"
#include "megacpp/run/launch/training.h"
#include "megacpp/run/lineage/lock_file.h"
#include "tests/support/errors.h"
#include "tests/support/process_worlds.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::launch {
namespace {

using testing_support::Processes;

constexpr int64_t kPlenty = int64_t{1} << 50;

class AgreementTest : public testing::Test {
 protected:
  static recipe::Recipe recipe(const std::vector<std::string>& settings = {}) {
    std::vector<std::string> all = {"layout.data_parallel=2", "train.steps=2",   "train.sequence=64",
                                    "model.depth=2",          "train.threads=2", "train.wait_limit=60"};
    all.insert(all.end(), settings.begin(), settings.end());
    return recipe::load(std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml", all);
  }

  static Launch alone(int64_t free_memory) {
    return Launch(recipe(), {.none = true}, no_log, {.free_memory = [free_memory] { return free_memory; }});
  }

  /// Each process on a machine of its own.
  ProcessOptions options(size_t process, int64_t free_memory = kPlenty) {
    return {.transport = processes_.transport(process),
            .free_memory = [free_memory] { return free_memory; },
            .machine = [process] { return "machine " + std::to_string(process); }};
  }

  /// So few bytes that a launch by itself goes down the ladder.
  static int64_t too_little() {
    const auto rung_with = [](int64_t bytes) {
      Launch launch = alone(bytes);
      launch.prepare();
      return launch.rung();
    };
    Launch whole = alone(kPlenty);
    whole.prepare();
    EXPECT_EQ(whole.rung(), 0u);
    int64_t little = 8 * whole.estimate().fit.worst().needed();
    while (rung_with(little) == 0) little = little * 9 / 10;
    return little;
  }

  static data::TextCorpus corpus_of_license() {
    return data::load_text(std::vector<std::string>{std::string(MEGACPP_SOURCE_DIR) + "/LICENSE"});
  }

  /// Two processes train; both end at rung 1.
  void expect_all_go_down(const std::string& fault) {
    const data::TextCorpus corpus = corpus_of_license();
    processes_.run([&](size_t process) {
      Launch launch(recipe({"hardware.fail_allocation=[" + fault + "]"}), {.none = true}, no_log, options(process));
      launch.prepare();
      EXPECT_EQ(launch.rung(), 0u);
      EXPECT_EQ(run_training(launch, corpus).reports.back().step, 1);
      EXPECT_EQ(launch.rung(), 1u);
    });
  }

  /// Both processes refuse to train, `got` being what is said first of the second one; `differ` makes it another.
  void expect_refused_before_loading(
      const std::string& got,
      const std::function<void(size_t process, Launch& launch, TrainingOptions& training)>& differ) {
    const data::TextCorpus corpus = corpus_of_license();
    processes_.run([&](size_t process) {
      TrainingOptions training;
      training.start.after_load = [](const auto&) { FAIL() << "loaded"; };
      Launch launch(recipe(), {.none = true}, no_log, options(process));
      differ(process, launch, training);
      launch.prepare();
      const base::Problem problem =
          testing_support::problem_of(base::Code::E3103, [&] { run_training(launch, corpus, training); });
      EXPECT_EQ(problem.where, "inputs");
      EXPECT_NE(problem.got.find(got), std::string::npos) << problem.got;
    });
  }

  Processes processes_{2};
};

TEST_F(AgreementTest, AllKnowTheHostsOfTheRun) {
  processes_.run([&](size_t process) {
    ProcessOptions own = options(process);
    own.free_host_memory = [process] { return process == 0 ? kPlenty : kPlenty / 2; };
    const std::vector<RunHost> apart = Agreement(recipe(), own).hosts_of_run();
    ASSERT_EQ(apart.size(), 2u);
    EXPECT_EQ(apart[0].free_bytes, kPlenty);
    EXPECT_EQ(apart[1].free_bytes, kPlenty / 2);
    EXPECT_EQ(apart[1].processes, std::vector<int64_t>{1});
    own.machine = runtime::machine_identity;
    const std::vector<RunHost> together = Agreement(recipe(), own).hosts_of_run();
    ASSERT_EQ(together.size(), 1u);
    EXPECT_EQ(together[0].free_bytes, kPlenty / 2) << "the least that one of them has seen";
    EXPECT_EQ(together[0].name, runtime::host_name());
  });
}

// Plans count on the pool that each of their clients will be told to take.
TEST_F(AgreementTest, AllKnowHowManyProcessesShareAGpu) {
  processes_.run([&](size_t process) {
    Agreement agreement(recipe(), options(process));
    EXPECT_EQ(agreement.gpu_sharers({"g0"}), 2);
    EXPECT_EQ(agreement.gpu_sharers({"g0", "g1"}), 1);
    EXPECT_EQ(agreement.gpu_sharers({"g" + std::to_string(process)}), 1) << "a launcher gave each its own";
    EXPECT_EQ(agreement.gpu_sharers({}), 1) << "they cannot tell";
  });
}

// Devices that are not here are planned for all the same, beside hosts that are.
TEST_F(AgreementTest, AHostThatLacksMemoryForTheSnapshotEndsAllBeforeAnythingIsLoaded) {
  const std::vector<std::vector<std::string>> backends = {{"backend=cuda"}, {"backend=xla", "xla.plugin=cuda"}};
  for (std::vector<std::string> settings : backends) {
    settings.emplace_back("hardware.target=h200:2");
    for (const std::string limit : {"", "hardware.limit=1MiB"})  // a chip that does not fit either names no other cause
      processes_.run([&](size_t process) {
        ProcessOptions own = options(process);
        own.free_host_memory = [process] { return process == 0 ? kPlenty : 1; };
        own.require_devices = [](const recipe::Recipe&) {};
        std::vector<std::string> all = settings;
        if (!limit.empty()) all.push_back(limit);
        Launch launch(recipe(all), {.none = true}, no_log, own);
        const base::Error error = testing_support::error_of([&] { launch.prepare(); });
        EXPECT_EQ(error.code(), base::Code::E2001) << error.what();
        EXPECT_EQ(error.problem().where.find("host " + runtime::host_name() + " of h200:2"), 0u) << error.what();
        EXPECT_NE(error.problem().wanted.find("at most the 1 byte"), std::string::npos) << error.what();
        EXPECT_TRUE(launch.attempts().empty()) << "no rung is tried";
      });
  }
}

TEST_F(AgreementTest, TheLeastFreeMemoryDecidesForAll) {
  const int64_t little = too_little();
  Launch wanted = alone(little);
  wanted.prepare();
  // Each process has one of the two chips, and so half as much of them to hold.
  processes_.run([&](size_t process) {
    std::string said;
    const Log log = [&said](const Line& line) { said += line.topic == "memory" ? line.text : ""; };
    Launch launch(recipe(), {.none = true}, log, options(process, process == 0 ? kPlenty : little / 2));
    launch.prepare();
    EXPECT_EQ(launch.rung(), wanted.rung());
    EXPECT_EQ(fit::to_text(launch.changes()), fit::to_text(wanted.changes()));
    EXPECT_TRUE(said.starts_with("process 1")) << said;
    EXPECT_NE(said.find("the plan is for the least of all"), std::string::npos) << said;
  });
}

TEST_F(AgreementTest, ProcessesOfOneMachineShareItsMemory) {
  const int64_t little = too_little();
  Launch wanted = alone(little);
  wanted.prepare();
  for (const bool is_shared : {true, false})
    processes_.run([&](size_t process) {
      ProcessOptions own = options(process, little);
      if (is_shared) own.machine = runtime::machine_identity;
      Launch launch(recipe(), {.none = true}, no_log, own);
      launch.prepare();
      EXPECT_EQ(launch.rung(), is_shared ? wanted.rung() : 0u);
    });
}

TEST_F(AgreementTest, MemoryThatRunsOutOnOneProcessTakesAllDown) { expect_all_go_down("chip 1 step 0"); }

TEST_F(AgreementTest, AProcessThatCannotLoadTakesAllDown) { expect_all_go_down("chip 0 step load"); }

TEST_F(AgreementTest, AProcessThatIsDoneWithStepZeroLearnsThatAnotherRanOut) {
  processes_.run([&](size_t process) {
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    const int64_t needed = launch.estimate().fit.worst().needed();
    if (process == 0) {
      EXPECT_EQ(launch.agreement().agree_status(Status::going_on), Status::out_of_memory);
      launch.follow_down();
    } else {
      launch.step_down({base::Code::E2004,
                        {.where = "chip 1", .got = "an allocation failed"},
                        {.cls = memory::OomClass::runtime,
                         .phase = "step",
                         .chip = 1,
                         .step = 0,
                         .wanted = needed,
                         .limit = needed - 1}});
    }
    EXPECT_EQ(launch.rung(), 1u);
    EXPECT_LT(launch.estimate().fit.worst().needed(), needed);
  });
}

// A process that goes down because another must says of what the other ran out, and when.
TEST_F(AgreementTest, WhoFollowsDownKnowsTheClassAndPhaseOfTheFailure) {
  const std::vector<std::string> nothing_fits = {"ladder.rungs=[]", "train.recompute=none"};
  processes_.run([&](size_t process) {
    Launch launch(recipe(nothing_fits), {.none = true}, no_log, options(process));
    launch.prepare();
    const memory::OutOfMemory failure(base::Code::E2003, {.where = "chip 1", .got = "the program cannot be loaded"},
                                      {.cls = memory::OomClass::load, .phase = "loading", .place = "chip 1: data 1"});
    try {
      if (process == 1) launch.step_down(failure);
      EXPECT_EQ(launch.agreement().agree_status(Status::going_on), Status::out_of_memory);
      launch.follow_down();
      FAIL() << "no rung was left";
    } catch (const memory::OutOfMemory& error) {
      EXPECT_EQ(error.code(), base::Code::E2003);
      EXPECT_EQ(error.facts().cls, memory::OomClass::load);
      EXPECT_EQ(error.facts().phase, "loading");
      if (process == 0) {
        EXPECT_EQ(error.problem().got, "chip 1: data 1 ran out of memory (E2003 program load)");
      }
    }
  });
}

TEST_F(AgreementTest, AnotherErrorLeavesNobodyWaiting) {
  processes_.run([&](size_t process) {
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    if (process == 1) return launch.agreement().abort("loss nan");
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3101, [&] { launch.agreement().agree_status(Status::going_on); });
    EXPECT_NE(problem.got.find("loss nan"), std::string::npos) << problem.got;
  });
}

TEST_F(AgreementTest, DifferentRecipesAreRefusedWithTheirKeys) {
  processes_.run([&](size_t process) {
    const recipe::Recipe own = recipe({process == 0 ? "train.batch=8" : "train.batch=4"});
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3103, [&] { Agreement(own, options(process)); });
    EXPECT_EQ(problem.where, "recipe and build");
    EXPECT_EQ(problem.got, "process 1 (chips 1 to 1): train.batch 4");
    EXPECT_EQ(problem.wanted, "the same as process 0 (chips 0 to 0): train.batch 8");
  });
}

TEST_F(AgreementTest, DifferentBuildsAreRefused) {
  processes_.run([&](size_t process) {
    ProcessOptions own = options(process);
    if (process == 1) own.build = [](const auto&) { return catalog::Build{.code_version = "0.1.0+other"}; };
    const base::Problem problem = testing_support::problem_of(base::Code::E3103, [&] { Agreement(recipe(), own); });
    EXPECT_EQ(problem.got, "process 1 (chips 1 to 1): build 0.1.0+other");
  });
}

TEST_F(AgreementTest, DifferentPlatformsAreRefused) {
  processes_.run([&](size_t process) {
    ProcessOptions own = options(process);
    own.build = [process](const auto&) {
      return catalog::Build{.code_version = "0.1.0", .platform = "plugin " + std::to_string(process)};
    };
    const base::Problem problem = testing_support::problem_of(base::Code::E3103, [&] { Agreement(recipe(), own); });
    EXPECT_EQ(problem.got, "process 1 (chips 1 to 1): platform plugin 1");
  });
}

TEST_F(AgreementTest, DifferentArchitecturesAreRefused) {
  processes_.run([&](size_t process) {
    ProcessOptions own = options(process);
    own.architecture = [process] { return std::string(process == 0 ? "x86_64" : "aarch64"); };
    const base::Problem problem = testing_support::problem_of(base::Code::E3103, [&] { Agreement(recipe(), own); });
    EXPECT_EQ(problem.got, "process 1 (chips 1 to 1): architecture aarch64");
  });
}

TEST_F(AgreementTest, PlansOfOtherBytesAreRefusedBeforeStepZero) {
  processes_.run([&](size_t process) {
    ProcessOptions own = options(process);
    if (process == 1)
      own.transport.workspace_bytes = [](const collectives::Call&, int64_t) { return int64_t{1} << 20; };
    Launch launch(recipe(), {.none = true}, no_log, own);
    const base::Problem problem = testing_support::problem_of(base::Code::E3103, [&] { launch.prepare(); });
    EXPECT_EQ(problem.where, "plan");
    EXPECT_NE(problem.got.find("process 1 (chips 1 to 1): bytes per chip of stage 0 "), std::string::npos)
        << problem.got;
  });
}

// Programs of the run's own are compiled for the mesh that all agreed on, as those of the estimate are.
TEST_F(AgreementTest, ProcessesTrainWithoutAPass) {
  const data::TextCorpus corpus = corpus_of_license();
  processes_.run([&](size_t process) {
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    const Trained trained = run_training(launch, corpus, {.start = {.without = {"fuse"}}});
    EXPECT_NE(trained.started.own_programs, nullptr);
    EXPECT_EQ(trained.reports.back().step, 1);
  });
}

TEST_F(AgreementTest, OtherDataIsRefusedBeforeLoading) {
  const data::TextCorpus corpus = corpus_of_license();
  data::TextCorpus other = corpus;
  other.bytes.back() ^= 1;
  processes_.run([&](size_t process) {
    TrainingOptions training;
    training.start.after_load = [](const auto&) { FAIL() << "loaded"; };
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    const base::Problem problem = testing_support::problem_of(
        base::Code::E3103, [&] { run_training(launch, process == 1 ? other : corpus, training); });
    EXPECT_EQ(problem.where, "inputs");
    EXPECT_EQ(problem.got.find("process 1 (chips 1 to 1): fingerprint of the data "), 0u) << problem.got;
  });
}

TEST_F(AgreementTest, OtherWeightsAreRefusedBeforeLoading) {
  expect_refused_before_loading("weights: model.safetensors 1", [](size_t process, Launch&, TrainingOptions& training) {
    training.weights = [process] {
      return std::vector<collectives::Field>{{"config.json", "7"}, {"model.safetensors", std::to_string(process)}};
    };
  });
  expect_refused_before_loading("weights: config.json absent", [](size_t process, Launch&, TrainingOptions& training) {
    if (process == 0) training.weights = [] { return std::vector<collectives::Field>{{"config.json", "7"}}; };
  });
}

TEST_F(AgreementTest, AnotherCheckpointIsRefusedBeforeLoading) {
  const testing_support::TemporaryFolder folder;
  const std::vector<float> values = {1, 2};
  std::vector<checkpoint::Reader> readers;
  for (size_t process = 0; process < 2; ++process) {  // of one step, with another value
    const std::filesystem::path own = folder / std::to_string(process);
    const checkpoint::PieceBytes piece{.tensor = "w",
                                       .whole = {ir::DType::f32, {1}},
                                       .box = {{0}, {1}},
                                       .bytes = std::as_bytes(std::span(values).subspan(process, 1))};
    checkpoint::write_checkpoint(own, {.position = {.step = 3}}, std::span(&piece, 1));
    readers.emplace_back(own);
  }
  expect_refused_before_loading("manifest ", [&](size_t process, Launch&, TrainingOptions& training) {
    training.checkpoint = &readers[process];
  });
  expect_refused_before_loading("step of the checkpoint ", [&](size_t process, Launch&, TrainingOptions& training) {
    if (process == 1) training.checkpoint = &readers[1];
  });
}

TEST_F(AgreementTest, AnotherLockFileIsRefusedBeforeLoading) {
  const testing_support::TemporaryFolder folder;
  const std::string text =
      lineage::print_lock({.architecture = runtime::plugins::this_machine(), .facts = {{"sqlite", "0.0.1"}}});
  base::write_file_atomically(folder / lineage::kLockName, text);
  expect_refused_before_loading("lock file ", [&](size_t process, Launch& launch, TrainingOptions&) {
    launch.check_lineage(process == 1 ? folder / "recipe.yaml" : std::filesystem::path());
  });
}

TEST_F(AgreementTest, DifferentPassesSwitchedOffAreRefusedBeforeLoading) {
  const data::TextCorpus corpus = corpus_of_license();
  processes_.run([&](size_t process) {
    TrainingOptions training;
    if (process == 1) training.start.without = {"fuse"};
    training.start.after_load = [](const auto&) { FAIL() << "loaded"; };
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3103, [&] { run_training(launch, corpus, training); });
    EXPECT_EQ(problem.where, "programs");
    EXPECT_NE(problem.got.find("passes switched off fuse"), std::string::npos) << problem.got;
  });
}

TEST_F(AgreementTest, WhoHasLoadedWaitsLongerThanTheLimitForOneThatStillLoads) {
  const data::TextCorpus corpus = corpus_of_license();
  processes_.run([&](size_t process) {
    TrainingOptions training;
    training.start.after_load = [process](const auto&) {
      if (process == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    };
    Launch launch(recipe({"train.wait_limit=3"}), {.none = true}, no_log, options(process));
    launch.prepare();
    EXPECT_EQ(run_training(launch, corpus, training).reports.back().step, 1);
  });
}

// What each machine would choose is not asked: all have what the coordinator's facts lead to.
TEST_F(AgreementTest, AllProcessesRunTheSameResolvedRecipe) {
  std::vector<std::string> resolved(2);
  processes_.run([&](size_t process) {
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    resolved[process] = recipe::print(launch.estimate().recipe());
  });
  EXPECT_EQ(resolved[0], resolved[1]);
}

TEST_F(AgreementTest, AStopOnOneProcessStopsAllAfterTheSameStep) {
  const data::TextCorpus corpus = corpus_of_license();
  std::vector<int64_t> steps(2);
  processes_.run([&](size_t process) {
    Launch launch(recipe({"train.steps=9"}), {.none = true}, no_log, options(process));
    launch.prepare();
    int64_t calls = 0;
    const Trained trained = run_training(launch, corpus, {.should_stop = [&] { return process == 1 && ++calls > 3; }});
    EXPECT_TRUE(trained.was_stopped);
    steps[process] = train::steps_in(trained.reports);
  });
  EXPECT_EQ(steps, (std::vector<int64_t>{3, 3}));
}

TEST_F(AgreementTest, ARunThatNobodyStopsSaysSo) {
  const data::TextCorpus corpus = corpus_of_license();
  processes_.run([&](size_t process) {
    Launch launch(recipe(), {.none = true}, no_log, options(process));
    launch.prepare();
    const Trained trained = run_training(launch, corpus);
    EXPECT_FALSE(trained.was_stopped);
    EXPECT_EQ(trained.late_programs.compiles + trained.late_programs.cache_hits, 0);
  });
}

// An exception that is none of ours, in a step and while a run starts.
TEST_F(AgreementTest, AnyExceptionOfOneProcessEndsAllAtOnce) {
  const data::TextCorpus corpus = corpus_of_license();
  for (const bool in_step : {true, false}) {
    const auto begin = std::chrono::steady_clock::now();
    processes_.run([&](size_t process) {
      const auto fail = [process](const auto&) {
        if (process == 1) throw std::runtime_error("the disk is full");
      };
      TrainingOptions training;
      if (in_step)
        training.after_log = fail;
      else
        training.start.after_load = fail;
      Launch launch(recipe({"train.steps=9"}), {.none = true}, no_log, options(process));
      launch.prepare();
      if (process == 1) {
        EXPECT_THROW(run_training(launch, corpus, training), std::runtime_error);
      } else {
        const base::Problem problem =
            testing_support::problem_of(base::Code::E3101, [&] { run_training(launch, corpus, training); });
        EXPECT_NE(problem.got.find("the disk is full"), std::string::npos) << problem.got;
        EXPECT_EQ(problem.cause, base::Code::E9001) << "as a command reports an error that has no code";
      }
    });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50)) << "below train.wait_limit";
  }
}

class SharedCatalogTest : public AgreementTest {
 protected:
  /// What two processes with a catalog each leave, by process: a launch that runs out of memory in `fault`.
  std::vector<size_t> rungs(const std::string& fault) {
    std::vector<size_t> rungs(2);
    const data::TextCorpus corpus = corpus_of_license();
    processes_.run([&](size_t process) {
      std::vector<std::string> settings;
      if (!fault.empty()) settings.push_back("hardware.fail_allocation=[" + fault + "]");
      Launch launch(recipe(settings), {.file = file(process).string()}, no_log, options(process));
      launch.prepare();
      rungs[process] = launch.rung();
      run_training(launch, corpus);
    });
    return rungs;
  }
  std::filesystem::path file(size_t process) { return folder_ / ("catalog" + std::to_string(process) + ".sqlite"); }

  testing_support::TemporaryFolder folder_;
};

TEST_F(SharedCatalogTest, OnlyTheCoordinatorWritesAndAllStartWhereItRemembers) {
  const std::string fault = "chip 1 step 0";  // of the other process
  EXPECT_EQ(rungs(fault), (std::vector<size_t>{0, 0}));
  EXPECT_TRUE(std::filesystem::exists(file(0)));
  EXPECT_FALSE(std::filesystem::exists(file(1)));
  const catalog::Catalog catalog = catalog::Catalog::open(file(0));
  bool has_report = false;
  for (const catalog::Entry& entry : catalog.entries())
    for (const catalog::Outcome& outcome : entry.outcomes)
      has_report = has_report || (outcome.report && outcome.report->chip.find("chip 1") == 0);
  EXPECT_TRUE(has_report) << "of the process that failed";
  EXPECT_EQ(rungs(fault), (std::vector<size_t>{1, 1})) << "the next launch begins there on both";
}

TEST_F(SharedCatalogTest, AFailureAfterTheWindowEndsAllAndIsRecordedOnce) {
  const data::TextCorpus corpus = corpus_of_license();
  processes_.run([&](size_t process) {
    Launch launch(recipe({"train.steps=4", "hardware.fail_allocation=[chip 1 step 2]"}),
                  {.file = file(process).string()}, no_log, options(process));
    launch.prepare();
    if (process == 1) {
      EXPECT_THROW(run_training(launch, corpus), memory::OutOfMemory);
    } else {
      const base::Problem problem =
          testing_support::problem_of(base::Code::E3101, [&] { run_training(launch, corpus); });
      EXPECT_NE(problem.got.find("chip 1"), std::string::npos) << problem.got;
      EXPECT_EQ(problem.cause, base::Code::E2004) << "both end with the status of memory";
    }
  });
  size_t failures = 0;
  for (const catalog::Entry& entry : catalog::Catalog::open(file(0)).entries())
    for (const catalog::Outcome& outcome : entry.outcomes) failures += outcome.report.has_value();
  EXPECT_EQ(failures, 1U);
}

// The coordinator goes down for its own chip first, and then ends because of another's.
TEST_F(SharedCatalogTest, AFailureElsewhereIsRecordedWithTheReductionsTried) {
  const data::TextCorpus corpus = corpus_of_license();
  processes_.run([&](size_t process) {
    Launch launch(recipe({"train.steps=4", "hardware.fail_allocation=[chip 0 step 0, chip 1 step 2]"}),
                  {.file = file(process).string()}, no_log, options(process));
    launch.prepare();
    EXPECT_THROW(run_training(launch, corpus), base::Error);
  });
  std::vector<catalog::OomReport> of_chip_1;
  for (const catalog::Entry& entry : catalog::Catalog::open(file(0)).entries())
    for (const catalog::Outcome& outcome : entry.outcomes)
      if (outcome.report && outcome.report->chip.find("chip 1") == 0) of_chip_1.push_back(*outcome.report);
  ASSERT_EQ(of_chip_1.size(), 1U);
  EXPECT_FALSE(of_chip_1[0].reductions.empty());
}

}  // namespace
}  // namespace megacpp::launch
