// SPDX-License-Identifier: Apache-2.0
// The ways to name a model with its weights are the same for every command that takes one.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/model_commands.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"

namespace megacpp {
namespace {

using base::Json;
using testing_support::CommandResult;
using testing_support::has;
using testing_support::run_command;

constexpr const char* kModelAndRun = R"(name: named
model:
  pattern: MEA
  depth: 3
  hidden: 16
  vocab: 256
  attention: {heads: 4, kv_heads: 2, head_dim: 4, rope: false}
  feed_forward: {intermediate: 24, activation: relu2}
  mamba: {heads: 4, head_dim: 8, state: 4, groups: 2, chunk: 8}
train: {batch: 2, sequence: 16, steps: 1, threads: 1}
data: {text: [)";
constexpr const char* kRunAlone = "train: {batch: 2, sequence: 16, steps: 1, threads: 1}\ndata: {text: [";

class NamedModelTest : public testing::Test {
 protected:
  void SetUp() override {
    base::write_file_atomically(folder_ / "text.txt", std::string(50, 'a') + "the quick brown fox, twice over");
    write_recipe("model.yaml", kModelAndRun);
    write_recipe("rest.yaml", kRunAlone);
    ASSERT_EQ(run_command({"train", at("model.yaml")}).status, 0);
  }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void write_recipe(const std::string& name, const std::string& text) const {
    base::write_file_atomically(folder_ / name, text + at("text.txt") + "]}\n");
  }

  Json generated(const std::string& source) const {
    return testing_support::json_of(run_command(
        {"generate", source, "--ids", "1 2 3", "--max-tokens", "4", "--temperature", "0", "--json"}))["sequences"];
  }
  double evaluated(const std::string& source) const {
    return testing_support::json_of(
               run_command({"eval", source, "--text", at("text.txt"), "--set", "train.sequence=16", "--json"}))["loss"]
        .get<double>();
  }
  std::string exported(const std::string& source, const std::string& to) const {
    EXPECT_EQ(run_command({"export", source, at(to)}).status, 0) << source;
    return base::read_file(at(to + "/model.safetensors"));
  }
  Json losses_from(const std::string& source, const std::string& run) const {
    return testing_support::json_of(
        run_command({"train", at("rest.yaml"), "--from", source, "--run-dir", at(run), "--json"}))["losses"];
  }
  static std::string refused(const std::string& code, const std::vector<std::string>& words) {
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_TRUE(has(result.err, "error " + code)) << result.err;
    return result.err;
  }

  const testing_support::TemporaryFolder folder_;
  const testing_support::Variable runs_{"MEGACPP_RUNS", (folder_ / "runs").string()};
};

TEST_F(NamedModelTest, ARunAndItsCheckpointsAreFoundHoweverTheyAreNamed) {
  std::filesystem::create_directory_symlink(folder_ / "runs/latest/checkpoints/step-00000001", folder_ / "best");
  const Json expected = generated(at("runs/latest"));
  const double loss = evaluated(at("runs/latest"));
  const std::string bytes = exported(at("runs/latest"), "expected");
  const Json losses = losses_from(at("runs/latest"), "from");
  int number = 0;
  for (const std::string& source : {std::string("latest"), at("runs/latest/"), at("runs/latest/checkpoints/latest"),
                                    at("runs/latest/checkpoints/step-00000001/"), at("best"), at("best/.")}) {
    SCOPED_TRACE(source);
    const std::string to = std::to_string(number++);
    EXPECT_EQ(generated(source), expected);
    EXPECT_EQ(evaluated(source), loss);
    EXPECT_EQ(exported(source, "exported" + to), bytes);
    EXPECT_EQ(losses_from(source, "from" + to), losses);
  }
}

TEST_F(NamedModelTest, ACheckpointInNoRunSaysItselfWhatItsModelIs) {
  ASSERT_EQ(run_command({"checkpoint", "convert", "latest", "--to", at("alone"), "--weights-only"}).status, 0);
  EXPECT_EQ(generated(at("alone")), generated("latest"));
  EXPECT_NEAR(evaluated(at("alone/")), evaluated("latest"), 1e-4) << "in batches of another size";
  EXPECT_EQ(exported(at("alone"), "of_alone"), exported("latest", "of_run"));
  EXPECT_EQ(losses_from(at("alone"), "from_alone"), losses_from("latest", "from_run"));
  const std::filesystem::path alone = std::filesystem::canonical(folder_ / "alone");
  const std::string resumed = refused("E1206", {"train", "--resume", at("alone")});
  EXPECT_TRUE(has(resumed, "no recipe.yaml in " + alone.parent_path().parent_path().string())) << resumed;
  EXPECT_TRUE(has(resumed, "--from " + alone.string())) << resumed;
}

TEST_F(NamedModelTest, KeysThatContradictTheModelAreRefused) {
  ASSERT_EQ(run_command({"checkpoint", "convert", "latest", "--to", at("alone")}).status, 0);
  exported("latest", "folder");
  for (const auto& [source, file] : {std::pair{at("folder"), "config.json"}, std::pair{at("alone"), "manifest.json"},
                                     std::pair{std::string("latest"), "recipe.yaml"}}) {
    const std::vector<std::string> words = {"generate", source, "--ids", "1", "--max-tokens", "1", "--set"};
    std::vector<std::string> other = words, same = words;
    other.push_back("model.hidden=32");
    same.push_back("model.hidden=16");
    const std::string err = refused("E1205", other);
    EXPECT_TRUE(has(err, "model.hidden") && has(err, file)) << err;
    EXPECT_EQ(run_command(same).status, 0) << source;
  }
}

TEST_F(NamedModelTest, WhatIsNoModelIsRefused) {
  std::filesystem::create_directories(folder_ / "empty");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"generate", at("empty"), "--ids", "1"},
                                                {"eval", at("empty"), "--text", at("text.txt")},
                                                {"export", at("empty"), at("to")},
                                                {"train", at("rest.yaml"), "--from", at("empty")},
                                                {"train", at("rest.yaml"), "--from", at("rest.yaml")},
                                                {"train", "--resume", at("empty")}})
    refused("E1206", words);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "to"));
}

}  // namespace
}  // namespace megacpp
