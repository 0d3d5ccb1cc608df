// SPDX-License-Identifier: Apache-2.0
// What a run leaves on disk, and disks and directories that it cannot have.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/run/train/step_log.h"
#include "tests/checkpoint/tiny_train.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp {
namespace {

using base::Json;
using testing_support::CommandResult;
using testing_support::has;
using testing_support::losses_of;
using testing_support::run_command;
using testing_support::TemporaryFolder;
using testing_support::tiny_train;

// Until the run has saved its first checkpoint.
void wait_for_checkpoint(const std::filesystem::path& run) {
  for (int i = 0; i < 30'000 && !std::filesystem::exists(run / "checkpoints" / "latest"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

TEST(RunFolderTest, ARunLeavesItsRecipePlanLogAndCheckpoints) {
  const TemporaryFolder folder;
  const CommandResult result = run_command(tiny_train(folder / "run", {}, {"--json"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out).at("run_directory"), (folder / "run").string());
  EXPECT_EQ(Json::parse(result.out).at("checkpoints").at("saves"), 3);
  const Json plan = Json::parse(base::read_file(folder / "run" / "plan.json"));
  EXPECT_GT(plan.at("host").at("checkpoint_snapshot_bytes").get<int64_t>(), 0);
  EXPECT_TRUE(has(base::read_file(folder / "run" / "recipe.yaml"), "every: 2"));
  EXPECT_EQ(losses_of(folder / "run").size(), 6u);
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / "checkpoints" / "step-00000002"));  // keep: 2
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / "checkpoints" / "step-00000004"));
  EXPECT_EQ(std::filesystem::read_symlink(folder / "run" / "checkpoints" / "latest"), "step-00000006");
  EXPECT_EQ(run_command({"checkpoint", "verify", (folder / "run").string()}).status, 0);
}

TEST(RunFolderTest, TheLastStepIsSavedWhateverTheInterval) {
  const TemporaryFolder folder;
  for (const char* interval : {"0", "2", "7"}) {
    const std::filesystem::path run = folder / interval;
    ASSERT_EQ(run_command(tiny_train(run, {"train.steps=3", std::string("checkpoint.every=") + interval})).status, 0);
    EXPECT_EQ(std::filesystem::read_symlink(run / "checkpoints" / "latest"), "step-00000003") << interval;
  }
}

TEST(RunFolderTest, ARunThatOnlyMeasuresSavesNothingAndProfilesItsOpsByProgram) {
  const TemporaryFolder folder;
  const CommandResult result =
      run_command(tiny_train(folder / "run", {"train.steps=3", "checkpoint.every=-1"}, {"--json", "--profile"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "checkpoint none")) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("checkpoints").at("saves"), 0);
  EXPECT_EQ(json.at("checkpoints").at("snapshot_bytes"), 0) << "nobody takes one";
  EXPECT_FALSE(std::filesystem::exists(folder / "run" / "checkpoints" / "latest"));
  EXPECT_EQ(losses_of(folder / "run").size(), 3u);
  bool multiplies = false, updates = false;
  for (const Json& op : json.at("op_seconds")) {
    EXPECT_GT(op.at("seconds").get<double>(), 0) << op;
    multiplies = multiplies || (op.at("program") == "micro_step" && op.at("op") == "dot");
    updates = updates || op.at("program") == "update";
  }
  EXPECT_TRUE(multiplies && updates) << json.at("op_seconds");
}

std::vector<std::string> progress_lines(const std::string& err) {
  std::vector<std::string> lines;
  std::istringstream text(err);
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("step ")) lines.push_back(line);
  return lines;
}

// The first step of a process warms caches, also where a run goes on.
TEST(RunFolderTest, ProgressLinesShowTheRateSinceTheLineBeforeAndNoneOfTheFirstStep) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "run";
  const auto expect_rates = [&](const CommandResult& result, size_t reports_before) {
    ASSERT_EQ(result.status, 0) << result.err;
    const std::vector<std::string> lines = progress_lines(result.err);
    const std::vector<train::StepReport> reports = train::read_log(run / "log.jsonl").reports;
    ASSERT_EQ(lines.size() + reports_before, reports.size()) << result.err;
    ASSERT_GE(lines.size(), 2u) << result.err;
    EXPECT_FALSE(has(lines[0], "tok/s")) << lines[0];
    for (size_t i = 1; i < lines.size(); ++i) {
      const train::StepReport& report = reports[reports_before + i];
      char rate[64];
      std::snprintf(rate, sizeof rate, "  %7.0f tok/s", static_cast<double>(report.tokens) / report.seconds);
      EXPECT_TRUE(has(lines[i], rate)) << lines[i] << "\nwanted " << rate;
    }
  };
  expect_rates(run_command(tiny_train(run, {"train.steps=4"})), 0);
  // Logged are step 6, with the three since it went on, and step 8, the last.
  expect_rates(run_command({"train", "--resume", run.string(), "--set", "train.steps=9", "--set", "train.log_every=3"}),
               4);
}

// With nothing set, from a folder of the user's: runs are beside the user, the rest is where the system wants it.
TEST(RunFolderTest, ARunLeavesNothingElsewhereButCatalogAndCaches) {
  const TemporaryFolder folder;
  for (const char* name : {"work", "home", "tmp"}) std::filesystem::create_directory(folder / name);
  const std::string at = folder.path().string();
  const testing_support::Ending ending = testing_support::run_child(
      {.words =
           testing_support::on_recipe("train", "nam52-tiny.yaml",
                                      {"model.depth=1", "train.batch=1", "train.sequence=16", "train.steps=1",
                                       "train.threads=1", "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs]"}),
       .before = "unset MEGACPP_RUNS MEGACPP_CATALOG XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME; export HOME='" + at +
                 "/home' TMPDIR='" + at + "/tmp'; cd '" + at + "/work' &&"});
  ASSERT_EQ(ending.status, 0) << ending.err;
  int recipes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    const std::string file = entry.path().lexically_relative(folder.path()).string();
    EXPECT_TRUE(file.starts_with("work/runs/") || file.starts_with("home/.local/share/megacpp/") ||
                file.starts_with("home/.cache/megacpp/"))
        << file;
    recipes += entry.path().filename() == "recipe.yaml" ? 1 : 0;
  }
  EXPECT_EQ(recipes, 1);
}

TEST(RunFolderTest, ARunThatCannotBeReadIsARowOfTheList) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(tiny_train(folder / "good", {})).status, 0);
  std::filesystem::copy(folder / "good", folder / "old",
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  std::ofstream(folder / "old" / "recipe.yaml", std::ios::app) << "no_such_section: {}\n";
  std::ofstream(folder / "good" / "log.jsonl", std::ios::app) << "{\"step\": 5, \"lo\n";  // as a full disk leaves it
  const CommandResult text = run_command({"runs", "list", folder.path().string()});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(has(text.out, "6/6")) << text.out;
  EXPECT_TRUE(has(text.out, "error E1001")) << text.out;
  const CommandResult result = run_command({"runs", "list", folder.path().string(), "--json"});
  const Json runs = Json::parse(result.out).at("runs");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs.at(0).at("last").at("step"), 5);
  EXPECT_EQ(runs.at(1).at("error").at("code"), "E1001");
  EXPECT_EQ(run_command({"runs", "show", (folder / "old").string()}).status, 2);
}

TEST(RunFolderTest, ADirectoryThatAnotherProcessHasIsRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(tiny_train(folder / "run", {})).status, 0);
  const int other = ::open((folder / "run" / "lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  const CommandResult result = run_command({"train", "--resume", (folder / "run").string()});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has(result.err, "E3003")) << result.err;
  EXPECT_TRUE(has(run_command({"runs", "list", folder.path().string()}).out, "running"));
  ::close(other);
}

// Neither a new run nor a resumed one starts in it; the one that runs goes on undisturbed.
TEST(RunFolderTest, TwoRunsInOneDirectoryAreKeptApart) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "run";
  CommandResult second{}, resumed{};
  const auto intrude = [&](pid_t pid) {
    wait_for_checkpoint(run);
    second = run_command(tiny_train(run, {}));
    resumed = run_command({"train", "--resume", run.string()});
    ::kill(pid, SIGTERM);
  };
  const testing_support::Ending first =
      testing_support::run_child({.words = tiny_train(run, {"train.steps=100000"}), .once_started = intrude});
  EXPECT_EQ(first.status, base::kInterruptedStatus) << first.err;
  for (const CommandResult& refused : {second, resumed}) {
    EXPECT_EQ(refused.status, 1);
    EXPECT_TRUE(has(refused.err, "E3003")) << refused.err;
  }
  const std::vector<std::pair<int64_t, double>> losses = losses_of(run);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(losses[i].first, static_cast<int64_t>(i));
  EXPECT_TRUE(has(base::read_file(run / "recipe.yaml"), "steps: 100000"));
  EXPECT_EQ(run_command({"checkpoint", "verify", run.string()}).status, 0);
}

TEST(RunFolderTest, ARunWhoseDirectoryIsMovedEndsAndGoesOnThere) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "run", moved = folder / "moved";
  const testing_support::Ending ending =
      testing_support::run_child({.words = tiny_train(run, {"train.steps=100000"}), .once_started = [&](pid_t) {
                                    wait_for_checkpoint(run);
                                    std::filesystem::rename(run, moved);
                                  }});
  EXPECT_EQ(ending.status, 1) << ending.err;
  EXPECT_TRUE(has(ending.err, "error E3001")) << ending.err;
  EXPECT_TRUE(has(ending.err, "megacpp train --resume " + moved.string())) << ending.err;
  EXPECT_FALSE(std::filesystem::exists(run));
  const auto steps = std::to_string(losses_of(moved).size() + 1);
  EXPECT_EQ(run_command({"train", "--resume", moved.string(), "--set", "train.steps=" + steps}).status, 0);
}

TEST(RunFolderTest, ARunWhoseDatasetIsShortenedEndsWithItsName) {
  const TemporaryFolder folder;
  const std::string data = (folder / "data").string();
  ASSERT_EQ(run_command({"data", "tokenize", std::string(MEGACPP_SOURCE_DIR) + "/docs", "--out", data}).status, 0);
  const testing_support::Ending ending = testing_support::run_child(
      {.words = tiny_train(folder / "run", {"train.steps=100000", "data.text=[]", "data.blend=[" + data + "]"}),
       .once_started = [&](pid_t) {
         wait_for_checkpoint(folder / "run");
         std::filesystem::resize_file(data + ".bin", 100);
       }});
  EXPECT_EQ(ending.status, 2) << ending.err;
  EXPECT_TRUE(has(ending.err, "error E1008") && has(ending.err, data + ".bin")) << ending.err;
}

TEST(RunFolderTest, ANewestCheckpointWithoutItsManifestIsNamedAndNotPassedOver) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "run";
  ASSERT_EQ(run_command(tiny_train(run, {})).status, 0);
  std::filesystem::remove(run / "checkpoints" / "step-00000006" / "manifest.json");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"checkpoint", "verify", run.string()},
                                                {"train", "--resume", run.string(), "--set", "train.steps=8"}}) {
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_TRUE(has(result.err, "error E1204") && has(result.err, "step-00000006")) << result.err;
  }
  const std::string before = (run / "checkpoints" / "step-00000004").string();
  EXPECT_EQ(run_command({"train", "--resume", before, "--set", "train.steps=5"}).status, 0);
  EXPECT_EQ(run_command({"checkpoint", "verify", run.string()}).status, 0);
}

TEST(RunFolderTest, ADirectoryThatCannotBeWrittenIsRefusedBeforeStepZero) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const CommandResult result = run_command(tiny_train(folder / "file" / "run", {}));
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has(result.err, "E3001")) << result.err;
  EXPECT_FALSE(has(result.err, "step     1")) << result.err;
}

// The disk takes no more than a few blocks: saves fail, training goes on, and what was saved before is sound.
TEST(RunFolderTest, AFullDiskEndsTheSaveAndNotTheRun) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(tiny_train(folder / "run", {"train.steps=2"})).status, 0);
  const testing_support::Ending ending = testing_support::run_child(
      {.words = {"train", "--resume", (folder / "run").string(), "--no-catalog", "--set", "train.steps=6"},
       .before = "trap '' XFSZ; ulimit -f 64;"});
  const std::string& err = ending.err;
  EXPECT_EQ(ending.status, 1) << err;
  EXPECT_TRUE(has(err, "step 4 was not saved")) << err;
  EXPECT_TRUE(has(err, "step     6/6")) << err;
  EXPECT_TRUE(has(err, "E3001")) << err;
  EXPECT_EQ(std::filesystem::read_symlink(folder / "run" / "checkpoints" / "latest"), "step-00000002");
  EXPECT_EQ(run_command({"checkpoint", "verify", (folder / "run").string()}).status, 0);
  EXPECT_EQ(run_command({"train", "--resume", (folder / "run").string()}).status, 0);
}

}  // namespace
}  // namespace megacpp
