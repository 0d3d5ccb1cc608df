// SPDX-License-Identifier: Apache-2.0
// `train --from`: the weights of a Hugging Face folder, of a run and of a checkpoint as the start of a new run, on
// other layouts, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
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

constexpr const char* kModel = R"(model:
  pattern: MEAE
  depth: 4
  hidden: 16
  vocab: 256
  attention: {heads: 4, kv_heads: 2, head_dim: 4, rope: false}
  feed_forward: {intermediate: 24, activation: relu2}
  mamba: {heads: 4, head_dim: 8, state: 4, groups: 2, chunk: 8}
)";
constexpr const char* kRest = R"(train: {batch: 2, sequence: 16, micro_steps: 2, steps: 2, threads: 1, log_every: 1}
)";

class TrainFromTest : public testing::Test {
 protected:
  void SetUp() override {
    write("whole.yaml", std::string("name: whole\n") + kModel + kRest);
    write("rest.yaml", kRest);
    ASSERT_EQ(run_command({"export", at("whole.yaml"), at("folder")}).status, 0);
    write("folder/tokenizer.json", R"({"tokenizer": "of the folder"})");
  }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    base::write_file_atomically(folder_ / name, text);
  }
  std::string read(const std::string& name) const { return base::read_file(folder_ / name); }

  CommandResult train(const std::string& recipe, const std::string& run, const std::vector<std::string>& more,
                      const std::vector<std::string>& settings = {}) const {
    std::vector<std::string> words = {"train", at(recipe), "--run-dir",
                                      at(run), "--set",    "data.text=[" + std::string(MEGACPP_SOURCE_DIR) + "/docs]"};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }

  std::vector<double> losses_of(const std::string& run) const {
    std::vector<double> losses;
    std::ifstream log(folder_ / run / "log.jsonl");
    for (std::string line; std::getline(log, line);) losses.push_back(Json::parse(line).at("loss").get<double>());
    return losses;
  }

  const TemporaryFolder folder_;
};

TEST_F(TrainFromTest, AFolderOfTheInitialWeightsTrainsAsTheRecipeDoes) {
  ASSERT_EQ(train("whole.yaml", "own", {}).status, 0);
  const CommandResult result = train("rest.yaml", "from", {"--from", at("folder")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "weights of " + at("folder"))) << result.err;
  EXPECT_EQ(losses_of("from").size(), 2u);
  EXPECT_EQ(losses_of("from"), losses_of("own"));
  EXPECT_TRUE(has(read("from/recipe.yaml"), "hidden: 16"));
  // It is a run like any other.
  const CommandResult resumed = run_command({"train", "--resume", at("from"), "--set", "train.steps=3"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(losses_of("from").size(), 3u);
}

TEST_F(TrainFromTest, WeightsArePlacedOnAnyLayout) {
  ASSERT_EQ(train("rest.yaml", "one", {"--from", at("folder")}).status, 0);
  const std::vector<std::vector<std::string>> layouts = {{"layout.tensor_parallel=2"},
                                                         {"layout.data_parallel=2", "layout.zero=3"},
                                                         {"layout.context_parallel=2"},
                                                         {"layout.pipeline_parallel=2"}};
  for (size_t i = 0; i < layouts.size(); ++i) {
    const std::string run = "layout" + std::to_string(i);
    const CommandResult result = train("rest.yaml", run, {"--from", at("folder")}, layouts[i]);
    ASSERT_EQ(result.status, 0) << layouts[i].front() << "\n" << result.err;
    const std::vector<double> expected = losses_of("one"), losses = losses_of(run);
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t step = 0; step < losses.size(); ++step)
      EXPECT_NEAR(losses[step], expected[step], 1e-4) << layouts[i].front() << " step " << step;
  }
}

TEST_F(TrainFromTest, ARunGivesItsWeightsAndNothingElse) {
  ASSERT_EQ(train("whole.yaml", "first", {}, {"optimizer.lr=0.01"}).status, 0);
  ASSERT_EQ(run_command({"export", at("first"), at("trained")}).status, 0);
  ASSERT_EQ(train("rest.yaml", "of_folder", {"--from", at("trained")}).status, 0);
  // Without optimizer state and from the first sample on: as from a folder, which has neither. Another optimizer too.
  ASSERT_EQ(train("rest.yaml", "of_run", {"--from", at("first")}).status, 0);
  ASSERT_EQ(train("rest.yaml", "of_checkpoint", {"--from", at("first/checkpoints/step-00000002/")}).status, 0);
  ASSERT_EQ(train("rest.yaml", "of_link", {"--from", at("first/checkpoints/latest")}).status, 0);
  EXPECT_EQ(run_command({"export", at("first/checkpoints/latest/"), at("of_link_exported")}).status, 0);
  EXPECT_EQ(train("rest.yaml", "of_sgd", {"--from", at("first")}, {"optimizer.name=sgd"}).status, 0);
  EXPECT_EQ(losses_of("of_run"), losses_of("of_folder"));
  EXPECT_EQ(losses_of("of_checkpoint"), losses_of("of_folder"));
  EXPECT_EQ(losses_of("of_link"), losses_of("of_folder"));
  EXPECT_NE(losses_of("of_run").front(), losses_of("first").front());
}

TEST_F(TrainFromTest, AdaptersAreTrainedOnTopOfAFolderOrARun) {
  const std::vector<std::string> adapters = {"lora.rank=2", "lora.targets=[block*.A.w*, block*.w_up]"};
  ASSERT_EQ(train("whole.yaml", "plain", {}).status, 0);
  ASSERT_EQ(train("rest.yaml", "on_folder", {"--from", at("folder")}, adapters).status, 0);
  EXPECT_EQ(losses_of("on_folder").front(), losses_of("plain").front()) << "adapters start at zero";
  EXPECT_NE(losses_of("on_folder").back(), losses_of("plain").back());
  for (const std::string layout :
       {"layout.tensor_parallel=2", "layout.data_parallel=2", "layout.pipeline_parallel=2"}) {
    std::vector<std::string> settings = adapters;
    settings.insert(settings.end(), {layout, "layout.zero=3"});
    ASSERT_EQ(train("rest.yaml", layout, {"--from", at("folder")}, settings).status, 0) << layout;
    EXPECT_NEAR(losses_of(layout).back(), losses_of("on_folder").back(), 1e-4) << layout;
  }
  // A run with adapters goes on with them, and may not change them; its checkpoint resumes.
  EXPECT_EQ(train("rest.yaml", "on_run", {"--from", at("on_folder")}).status, 0);
  EXPECT_TRUE(has(read("on_run/recipe.yaml"), "rank: 2"));
  const CommandResult changed = train("rest.yaml", "a", {"--from", at("on_folder")}, {"lora.rank=3"});
  EXPECT_TRUE(has(changed.err, "E1205") && has(changed.err, "lora.rank")) << changed.err;
  EXPECT_EQ(run_command({"train", "--resume", at("on_folder"), "--set", "train.steps=3"}).status, 0);
  const CommandResult rescaled = run_command({"train", "--resume", at("on_folder"), "--set", "lora.alpha=3"});
  EXPECT_TRUE(has(rescaled.err, "E1205") && has(rescaled.err, "lora.alpha")) << rescaled.err;
  // What training left of the base is the base: merged is the folder and the adapters.
  ASSERT_EQ(run_command({"export", at("on_folder"), at("merged")}).status, 0);
  ASSERT_EQ(run_command({"export", at("folder"), at("again"), "--adapters", at("on_folder")}).status, 0);
  EXPECT_EQ(read("merged/model.safetensors"), read("again/model.safetensors"));
  EXPECT_NE(read("merged/model.safetensors"), read("folder/model.safetensors"));
}

TEST_F(TrainFromTest, TokenizerFilesGoFromFolderToRunToFolder) {
  ASSERT_EQ(train("rest.yaml", "run", {"--from", at("folder")}).status, 0);
  EXPECT_EQ(read("run/tokenizer.json"), read("folder/tokenizer.json"));
  ASSERT_EQ(train("rest.yaml", "second", {"--from", at("run")}).status, 0);
  ASSERT_EQ(run_command({"export", at("second"), at("exported")}).status, 0);
  EXPECT_EQ(read("exported/tokenizer.json"), read("folder/tokenizer.json"));
}

TEST_F(TrainFromTest, WhatContradictsTheModelIsRefused) {
  const auto refused = [&](const char* code, const CommandResult& result) {
    EXPECT_NE(result.status, 0);
    EXPECT_TRUE(has(result.err, code)) << result.err;
    return result.err;
  };
  const std::string hidden = refused("E1205", train("rest.yaml", "a", {"--from", at("folder")}, {"model.hidden=32"}));
  for (const char* part : {"model.hidden", "32", "16, as in", "config.json"}) EXPECT_TRUE(has(hidden, part)) << hidden;
  ASSERT_EQ(train("whole.yaml", "run", {}).status, 0);
  EXPECT_TRUE(has(refused("E1205", train("rest.yaml", "a", {"--from", at("run")}, {"model.vocab=300"})), "256"));
  refused("E1206", train("rest.yaml", "a", {"--from", at("nothing")}));
  refused("E1007", train("rest.yaml", "a", {"--from", at("folder"), "--resume", at("run")}));
  refused("E1007", run_command({"train", "--resume", at("run"), "--from", at("folder")}));
  refused("E1007", run_command({"train", "--from", at("folder")}));
  EXPECT_FALSE(std::filesystem::exists(at("a")));
}

TEST_F(TrainFromTest, AFolderThatIsNoWholeModelIsRefused) {
  const auto refused = [&](const char* code) {
    const CommandResult result = train("rest.yaml", "a", {"--from", at("folder")});
    EXPECT_NE(result.status, 0);
    EXPECT_TRUE(has(result.err, code)) << result.err;
  };
  const std::string tensors = read("folder/model.safetensors");
  std::filesystem::remove(folder_ / "folder" / "model.safetensors");
  refused("E1008");
  std::ofstream(folder_ / "folder" / "model.safetensors", std::ios::binary) << tensors.substr(0, tensors.size() / 2);
  refused("E1201");
  write("folder/config.json", R"({"architectures": ["GPT2LMHeadModel"]})");
  refused("E1202");
  EXPECT_FALSE(std::filesystem::exists(at("a/recipe.yaml")));  // no run began
}

}  // namespace
}  // namespace megacpp
