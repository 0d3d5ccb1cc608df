// SPDX-License-Identifier: Apache-2.0
// `train --resume`, `runs` and `checkpoint` as a user types them.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "tests/checkpoint/tiny_train.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp {
namespace {

using base::Json;
using testing_support::checkpoint_files;
using testing_support::CommandResult;
using testing_support::has;
using testing_support::losses_of;
using testing_support::run_command;
using testing_support::TemporaryFolder;
using testing_support::tiny_train;

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

TEST(ResumeCommandTest, ABlendOfDatasetsGoesOnAtItsSample) {
  const TemporaryFolder folder;
  const std::string source = MEGACPP_SOURCE_DIR, docs = (folder / "docs").string(),
                    licence = (folder / "licence").string();
  ASSERT_EQ(run_command({"data", "tokenize", source + "/docs", "--out", docs}).status, 0);
  ASSERT_EQ(run_command({"data", "tokenize", source + "/LICENSE", "--out", licence}).status, 0);
  const std::vector<std::string> blended = {"data.text=[]", "data.blend=[" + docs + "=0.7, " + licence + "=0.3]",
                                            "checkpoint.keep=0"};
  ASSERT_EQ(run_command(tiny_train(folder / "whole", blended)).status, 0);
  ASSERT_EQ(run_command(tiny_train(folder / "parts", blended)).status, 0);
  const std::string at = (folder / "parts" / "checkpoints" / "step-00000002").string();
  const CommandResult resumed = run_command({"train", "--resume", at});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(losses_of(folder / "whole"), losses_of(folder / "parts"));
  EXPECT_TRUE(checkpoint_files(folder / "whole", 6) == checkpoint_files(folder / "parts", 6));
  // Another order of samples shows, so the losses above are those of the same ones.
  ASSERT_EQ(run_command(tiny_train(folder / "other", {blended[0], blended[1], "data.seed=99"})).status, 0);
  EXPECT_NE(losses_of(folder / "whole"), losses_of(folder / "other"));
}

// Its samples are those of the text that it began with: in another one they would be others.
TEST(ResumeCommandTest, ARunGoesOnWithOtherDataOnlyWhereThatIsAskedFor) {
  const TemporaryFolder folder;
  const std::string text = (folder / "text").string(), run = (folder / "run").string();
  std::filesystem::create_directories(text);
  for (const char* name : {"/kept.txt", "/edited.txt"})
    base::write_file_atomically(text + name, std::string(400, 'a') + name);
  ASSERT_EQ(run_command(tiny_train(run, {"train.steps=2", "data.text=[" + text + "]"})).status, 0);
  const std::vector<std::string> resume = {"train", "--resume", run, "--set", "train.steps=4"};
  base::write_file_atomically(text + "/edited.txt", std::string(400, 'b') + "/edited.txt");
  base::write_file_atomically(text + "/new.txt", "more");
  const CommandResult refused = run_command(resume);
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_TRUE(has(refused.err, "error E1007")) << refused.err;
  EXPECT_TRUE(has(refused.err, "changed: " + text + "/edited.txt; new: " + text + "/new.txt")) << refused.err;
  EXPECT_TRUE(has(refused.err, "--allow-changed-data")) << refused.err;
  EXPECT_EQ(losses_of(run).size(), 2U) << "nothing was trained";
  std::vector<std::string> allowed = resume;
  allowed.push_back("--allow-changed-data");
  const CommandResult other = run_command(allowed);
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_TRUE(has(other.err, "other than the run had so far: changed: ")) << other.err;
  EXPECT_EQ(losses_of(run).size(), 4U);
  const CommandResult again = run_command({"train", "--resume", run, "--set", "train.steps=5"});
  EXPECT_EQ(again.status, 0) << "these are its data now\n" << again.err;
  // A run of an earlier version does not say what its data were.
  std::filesystem::remove(run + "/data.json");
  base::write_file_atomically(text + "/new.txt", "other");
  EXPECT_EQ(run_command({"train", "--resume", run, "--set", "train.steps=6"}).status, 0);
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
