// SPDX-License-Identifier: Apache-2.0
// `train --resume`, `runs` and `checkpoint` as a user types them.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/base/error.h"
#include "megacpp/base/file.h"
#include "megacpp/base/json.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp {
namespace {

using base::Json;
using testing_support::CommandResult;
using testing_support::has;
using testing_support::run_command;
using testing_support::TemporaryFolder;

std::vector<std::string> tiny_train(const std::filesystem::path& run, std::vector<std::string> settings,
                                    const std::vector<std::string>& more = {}) {
  settings.insert(settings.begin(),
                  {"model.depth=2", "train.batch=2", "train.sequence=16", "train.threads=1", "train.log_every=1",
                   "train.steps=6", "checkpoint.every=2", "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs]"});
  std::vector<std::string> words = {"--run-dir", run.string()};
  words.insert(words.end(), more.begin(), more.end());
  return testing_support::on_recipe("train", "nam52-tiny.yaml", settings, words);
}

std::map<std::string, std::string> checkpoint_files(const std::filesystem::path& run, int64_t step) {
  std::map<std::string, std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(run / "checkpoints" / ("step-0000000" + std::to_string(step))))
    files[entry.path().filename().string()] = base::read_file(entry.path());
  return files;
}

/// Steps and losses of a log.
std::vector<std::pair<int64_t, double>> losses_of(const std::filesystem::path& run) {
  std::vector<std::pair<int64_t, double>> losses;
  std::ifstream log(run / "log.jsonl");
  for (std::string line; std::getline(log, line);) {
    const Json json = Json::parse(line);
    losses.emplace_back(json.at("step").get<int64_t>(), json.at("loss").get<double>());
  }
  return losses;
}

TEST(ResumeCommandTest, ARunLeavesItsRecipePlanLogAndCheckpoints) {
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

TEST(ResumeCommandTest, AResumedRunIsTheUninterruptedOneToTheBit) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(tiny_train(folder / "whole", {})).status, 0);
  ASSERT_EQ(run_command(tiny_train(folder / "parts", {"checkpoint.keep=0"})).status, 0);
  // Back to step 2: the log loses what is run again, and nothing else.
  const std::string at = (folder / "parts" / "checkpoints" / "step-00000002/").string();
  std::ofstream(folder / "parts" / "log.jsonl", std::ios::app) << "{\"step\": 6, \"lo";  // a line that was cut short
  const CommandResult resumed = run_command({"train", "--resume", at, "--json"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(Json::parse(resumed.out).at("first_step"), 2);
  EXPECT_EQ(Json::parse(resumed.out).at("losses").size(), 4u);
  EXPECT_EQ(losses_of(folder / "whole"), losses_of(folder / "parts"));
  EXPECT_TRUE(checkpoint_files(folder / "whole", 6) == checkpoint_files(folder / "parts", 6));
  // Nothing is left to do, and nothing is done.
  const CommandResult idle = run_command({"train", "--resume", (folder / "whole").string(), "--json"});
  EXPECT_EQ(idle.status, 0) << idle.err;
  EXPECT_EQ(losses_of(folder / "whole").size(), 6u);
  // With more steps it goes on, in another layout.
  const CommandResult longer = run_command(
      {"train", "--resume", (folder / "whole").string(), "--set", "train.steps=8", "--set", "layout.data_parallel=2"});
  EXPECT_EQ(longer.status, 0) << longer.err;
  EXPECT_EQ(losses_of(folder / "whole").size(), 8u);
}

TEST(ResumeCommandTest, LatestIsTheRunThatWasStartedLast) {
  const TemporaryFolder folder;
  const auto words =
      testing_support::on_recipe("train", "nam52-tiny.yaml",
                                 {"model.depth=1", "train.batch=1", "train.sequence=16", "train.steps=1",
                                  "train.threads=1", "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs]"},
                                 {"--json"});
  const std::string first = Json::parse(run_command(words).out).at("run_directory").get<std::string>();
  const std::string second = Json::parse(run_command(words).out).at("run_directory").get<std::string>();
  EXPECT_NE(first, second);  // within the same second
  const CommandResult resumed = run_command({"train", "--resume", "--set", "train.steps=2", "--json"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(std::filesystem::canonical(Json::parse(resumed.out).at("run_directory").get<std::string>()),
            std::filesystem::canonical(second));
  const Json listed = Json::parse(run_command({"runs", "list", "--json"}).out).at("runs");
  EXPECT_GE(listed.size(), 2u);
  EXPECT_TRUE(has(run_command({"runs", "list"}).out, second));
  EXPECT_TRUE(has(run_command({"runs", "show", "latest"}).out, "2/2"));
}

TEST(ResumeCommandTest, ARunThatCannotBeReadIsARowOfTheList) {
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

TEST(ResumeCommandTest, WhatCannotBeResumedIsRefused) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(tiny_train(folder / "run", {})).status, 0);
  const std::string run = (folder / "run").string();
  const auto refused = [&](const char* code, const std::vector<std::string>& words) {
    const CommandResult result = run_command(words);
    EXPECT_NE(result.status, 0);
    EXPECT_TRUE(has(result.err, code)) << result.err;
    return result.err;
  };
  refused("E1206", {"train", "--resume", (folder / "nothing").string()});
  refused("E1206", tiny_train(folder / "run", {}));  // a second run in the same directory
  refused("E1007", tiny_train(folder / "other", {}, {"--resume", run}));
  refused("E1007", {"train"});
  EXPECT_TRUE(has(refused("E1205", {"train", "--resume", run, "--set", "model.hidden=32"}), "model.hidden"));
  EXPECT_TRUE(has(refused("E1205", {"train", "--resume", run, "--set", "optimizer.name=sgd"}), "optimizer.name"));
  refused("E1206", {"runs", "show", (folder / "nothing").string()});
  refused("E1206", {"checkpoint", "show", (folder / "nothing").string()});
  // Damage is named before anything runs, and the files stay as they are.
  const std::filesystem::path shard = folder / "run" / "checkpoints" / "step-00000006" / "shard-00000.safetensors";
  std::string bytes = base::read_file(shard);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  std::ofstream(shard, std::ios::binary) << bytes;
  EXPECT_TRUE(has(refused("E1204", {"train", "--resume", run, "--set", "train.steps=9"}), shard.string()));
  EXPECT_TRUE(has(refused("E1204", {"checkpoint", "verify", run}), shard.string()));
  EXPECT_EQ(losses_of(run).size(), 6u);
  const std::string older = (folder / "run" / "checkpoints" / "step-00000004").string();
  EXPECT_EQ(run_command({"train", "--resume", older}).status, 0);
  EXPECT_EQ(run_command({"checkpoint", "verify", run}).status, 0);  // the damaged one was written again
}

TEST(ResumeCommandTest, ADirectoryThatAnotherProcessHasIsRefused) {
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

TEST(ResumeCommandTest, ADirectoryThatCannotBeWrittenIsRefusedBeforeStepZero) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const CommandResult result = run_command(tiny_train(folder / "file" / "run", {}));
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has(result.err, "E3001")) << result.err;
  EXPECT_FALSE(has(result.err, "step     1")) << result.err;
}

// The disk takes no more than a few blocks: saves fail, training goes on, and what was saved before is sound.
TEST(ResumeCommandTest, AFullDiskEndsTheSaveAndNotTheRun) {
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

TEST(ResumeCommandTest, ASignalSavesAndTheRunGoesOnFromThere) {
  const TemporaryFolder folder;
  const std::string run = (folder / "run").string(), err = (folder / "err").string();
  base::write_file_atomically(err, "");
  const auto send = [&](pid_t pid) {
    for (int i = 0; i < 30'000 && !has(base::read_file(err), "step     3/"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(pid, SIGTERM);
  };
  const testing_support::Ending ending = testing_support::run_child(
      {.words = tiny_train(run, {"train.steps=100000", "checkpoint.every=0"}), .err = err, .once_started = send});
  EXPECT_EQ(ending.status, base::kInterruptedStatus);
  const Json shown = Json::parse(run_command({"checkpoint", "show", run, "--json"}).out);
  const auto saved = shown.at("step").get<int64_t>();
  EXPECT_GE(saved, 3);
  EXPECT_TRUE(has(base::read_file(err), "--resume")) << base::read_file(err);
  const CommandResult resumed =
      run_command({"train", "--resume", run, "--set", "train.steps=" + std::to_string(saved + 2), "--json"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(Json::parse(resumed.out).at("first_step"), saved);
}

// Memory that runs out after the window ends the run; the checkpoint before it is there.
TEST(ResumeCommandTest, MemoryThatRunsOutLeavesAUsableCheckpoint) {
  const TemporaryFolder folder;
  const CommandResult result =
      run_command(tiny_train(folder / "run", {"hardware.fail_allocation=[chip 0 step 3]", "ladder.rungs=[]"}));
  EXPECT_EQ(result.status, 3) << result.err;
  const CommandResult resumed =
      run_command({"train", "--resume", (folder / "run").string(), "--set", "hardware.fail_allocation=[]", "--json"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(Json::parse(resumed.out).at("first_step"), 2);
}

TEST(ResumeCommandTest, ConvertAndAverageWriteCheckpoints) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_command(tiny_train(folder / "run", {})).status, 0);
  const std::string run = (folder / "run").string(), to = (folder / "half").string(), mean = (folder / "mean").string();
  EXPECT_EQ(run_command({"checkpoint", "convert", run, "--to", to, "--type", "bf16", "--shards", "3"}).status, 0);
  EXPECT_EQ(Json::parse(run_command({"checkpoint", "show", to, "--json"}).out).at("files"), 3);
  EXPECT_EQ(run_command({"checkpoint", "average", run + "/checkpoints/step-00000004",
                         run + "/checkpoints/step-00000006", "--to", mean})
                .status,
            0);
  EXPECT_EQ(run_command({"checkpoint", "verify", mean}).status, 0);
  EXPECT_EQ(run_command({"checkpoint", "convert", run, "--to", to}).status, 1);  // it is there already
}

}  // namespace
}  // namespace megacpp
