// SPDX-License-Identifier: Apache-2.0
// The commands that take a model along: export, generate and eval.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/run/checkpoint/hf_folder.h"
#include "megacpp/run/checkpoint/writer.h"
#include "tests/support/command_line.h"
#include "tests/support/model_commands.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::json_of;
using testing_support::run_command;
using Words = std::vector<std::string>;

class ModelCommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    base::write_file_atomically(folder_ / "hybrid.yaml", testing_support::kExportedRecipe);
    base::write_file_atomically(folder_ / "held_out.txt", "the quick brown fox jumps over the lazy dog, twice over");
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(ModelCommandsTest, AnExportedFolderIsTheModelOfItsRecipe) {
  const base::Json exported = json_of(run_command({"export", at("hybrid.yaml"), at("exported"), "--json"}));
  EXPECT_EQ(exported["class"], "NemotronHForCausalLM");
  const auto generated = [&](const std::string& source) {
    return json_of(run_command({"generate", source, "--ids", "1 2 3", "--ids", "4", "--max-tokens", "6",
                                "--temperature", "0", "--json"}))["sequences"];
  };
  EXPECT_EQ(generated(at("hybrid.yaml")), generated(at("exported")));
  const CommandResult again = run_command({"export", at("hybrid.yaml"), at("exported")});
  EXPECT_NE(again.err.find("E3001"), std::string::npos) << again.err;
}

TEST_F(ModelCommandsTest, ACheckpointOfARunIsASource) {
  std::filesystem::create_directories(at("run"));
  base::write_file_atomically(folder_ / "run/recipe.yaml", testing_support::kExportedRecipe);
  EXPECT_NE(run_command({"export", at("run"), at("none")}).err.find("E1206"), std::string::npos);
  json_of(run_command({"export", at("hybrid.yaml"), at("first"), "--json"}));
  const checkpoint::ImportedModel imported = checkpoint::import_hf_folder(at("first"));
  std::vector<checkpoint::PieceBytes> pieces;
  for (const auto& [name, tensor] : imported.tensors)
    pieces.push_back({.tensor = name,
                      .whole = {ir::DType::f32, tensor.shape},
                      .box = {ir::Shape(tensor.shape.size(), 0), tensor.shape},
                      .bytes = std::as_bytes(std::span(tensor.data))});
  std::filesystem::create_directories(at("run/checkpoints"));
  const checkpoint::Store store(at("run/checkpoints"));
  checkpoint::write_checkpoint(store, {.position = {.step = 3}}, pieces);
  json_of(run_command({"export", at("run"), at("second"), "--json"}));
  json_of(run_command({"export", store.path_of(3).string(), at("third"), "--json"}));
  for (const char* folder : {"second/model.safetensors", "third/model.safetensors"})
    EXPECT_EQ(base::read_file(at(folder)), base::read_file(at("first/model.safetensors"))) << folder;
  const CommandResult other = run_command({"export", at("run"), at("fourth"), "--set", "model.hidden=32"});
  EXPECT_NE(other.err.find("E1205"), std::string::npos) << other.err;
  // Neither a recipe nor the manifest says what the model is: where both were looked for is said.
  checkpoint::write_checkpoint(folder_ / "bare", {.position = {.step = 3}}, pieces);
  const CommandResult bare = run_command({"export", at("bare"), at("fifth")});
  EXPECT_NE(bare.err.find("E1206"), std::string::npos) << bare.err;
  for (const char* file : {"recipe.yaml in ", "bare/manifest.json"})
    EXPECT_NE(bare.err.find(file), std::string::npos) << bare.err;
}

TEST_F(ModelCommandsTest, OnePromptIsPrintedAsItGrows) {
  const std::vector<std::string> words = {
      "generate", at("hybrid.yaml"), "--prompt", "int main", "--max-tokens",
      "5",        "--seed",          "3",        "--logits", at("logits.safetensors")};
  const CommandResult first = run_command(words);
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out.size(), 6u) << "five bytes and the end of the line";
  EXPECT_EQ(run_command(words).out, first.out);
  EXPECT_TRUE(std::filesystem::exists(at("logits.safetensors")));
}

TEST_F(ModelCommandsTest, PromptsAreReadAtOnceAndInTheRecipesPrecision) {
  for (const char* precision : {"f32", "bf16"}) {
    const base::Json generated =
        json_of(run_command({"generate", at("hybrid.yaml"), "--ids", "1 2 3 4 5", "--max-tokens", "6", "--temperature",
                             "0", "--set", std::string("train.precision=") + precision, "--json"}));
    EXPECT_EQ(generated["positions"], 10) << precision;  // the last token is not read
    EXPECT_EQ(generated["sequences"][0]["tokens"].size(), 6u) << precision;
  }
}

TEST_F(ModelCommandsTest, WhatGenerateCannotReadIsRefused) {
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"generate", at("hybrid.yaml")});
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.status, 2) << result.err;
    return result.err;
  };
  EXPECT_NE(refusal({}).find("E1007"), std::string::npos);
  EXPECT_NE(refusal({"--prompt", "a", "--ids", "1"}).find("E1007"), std::string::npos);
  EXPECT_NE(refusal({"--tokenizer", "bytes", "--ids", "1"}).find("E1007"), std::string::npos);
  EXPECT_NE(refusal({"--ids", "1 x"}).find("E1102"), std::string::npos);
  EXPECT_NE(refusal({"--ids", "256"}).find("E1102"), std::string::npos);
  EXPECT_NE(refusal({"--prompt", ""}).find("E1102"), std::string::npos);
  EXPECT_NE(refusal({"--ids", "1", "--top-p", "2"}).find("E1007"), std::string::npos);
  for (const char* ids : {"1 99999999999999999999", "1 -99999999999999999999", "2147483648", "1 2.5", "0x10", "", " "})
    EXPECT_NE(refusal({"--ids", ids}).find("E1102"), std::string::npos) << ids;
}

// The largest element of its tensor, by which nothing can be said of any token.
TEST_F(ModelCommandsTest, WeightsWithANanAreNoModelToUse) {
  json_of(run_command({"export", at("hybrid.yaml"), at("broken"), "--json"}));
  const std::string file = at("broken/model.safetensors");
  std::string bytes = base::read_file(file);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 0; i < 1024; ++i) std::memcpy(bytes.data() + bytes.size() - (i + 1) * sizeof nan, &nan, sizeof nan);
  base::write_file_atomically(file, bytes);
  for (const Words& words : {Words{"generate", at("broken"), "--prompt", "int main", "--max-tokens", "4"},
                             {"generate", at("broken"), "--ids", "1", "--ids", "2", "--temperature", "0", "--json"},
                             {"eval", at("broken"), "--text", at("held_out.txt")}}) {
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.status, 2) << words[0];
    EXPECT_NE(result.err.find("error E1302"), std::string::npos) << result.err;
  }
}

TEST_F(ModelCommandsTest, LogitsThatCannotBeWrittenAreRefusedBeforeTheModelIsLoaded) {
  const CommandResult result =
      run_command({"generate", at("no_such_model"), "--ids", "1", "--logits", at("no/such/folder/x")});
  EXPECT_NE(result.err.find("E3001"), std::string::npos) << result.err;
}

TEST_F(ModelCommandsTest, HelpShowsHowManyTokensAreGenerated) {
  const CommandResult help = run_command({"generate", "--help"});
  EXPECT_NE(help.out.find("--max-tokens"), std::string::npos);
  EXPECT_NE(help.out.find("new tokens to generate"), std::string::npos) << help.out;
  EXPECT_NE(help.out.find("64"), std::string::npos) << "the default";
}

base::Json result_of(Words words, const Words& settings) {
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  words.push_back("--json");
  base::Json json = json_of(run_command(words));
  json.erase("seconds");
  return json;
}

/// Each of the settings alone.
void expect_unread(const Words& words, const Words& settings) {
  const base::Json without = result_of(words, {});
  EXPECT_EQ(without["without_effect"], base::Json::array());
  for (const std::string& setting : settings) {
    SCOPED_TRACE(words[0] + " " + setting);
    base::Json with = result_of(words, {setting});
    ASSERT_EQ(with["without_effect"].size(), 1U) << with.dump();
    EXPECT_EQ(with["without_effect"][0]["key"], setting.substr(0, setting.find('=')));
    with["without_effect"] = base::Json::array();
    EXPECT_EQ(with, without) << "it is named and has an effect";
  }
}

const Words kUnreadSettings = {"name=other",         "lora.rank=2",          "train.micro_steps=3",
                               "train.steps=7",      "train.recompute=full", "train.recompute.M=none",
                               "train.log_every=3",  "ladder.rungs=[]",      "optimizer.lr=0.5",
                               "checkpoint.every=3", "data.seed=3",          "train.global_batch=4"};

TEST_F(ModelCommandsTest, KeysThatGenerateDoesNotReadAreNamed) {
  const Words generate = {"generate", at("hybrid.yaml"), "--ids", "1 2", "--max-tokens", "3", "--temperature", "0"};
  expect_unread(generate, kUnreadSettings);
  expect_unread(generate, {"train.batch=3", "train.sequence=8", "train.wait_limit=3", "layout.tensor_parallel=2",
                           "hardware.limit=64KiB", "backend=xla", "xla.plugin=cuda", "model.recurrent.heads=3"});
  for (const char* setting : {"train.threads=2", "train.precision=bf16", "train.seed=2", "model.init_std=0.1"})
    EXPECT_EQ(result_of(generate, {setting})["without_effect"], base::Json::array()) << setting;
}

TEST_F(ModelCommandsTest, KeysThatEvalDoesNotReadAreNamed) {
  const Words eval = {"eval", at("hybrid.yaml"), "--text", at("held_out.txt")};
  expect_unread(eval, kUnreadSettings);
  for (const char* setting : {"train.batch=3", "layout.tensor_parallel=2", "train.precision=bf16"})
    EXPECT_EQ(result_of(eval, {setting})["without_effect"], base::Json::array()) << setting;
  Words with = eval;
  with.insert(with.end(), {"--set", "data.seed=3"});
  const CommandResult said = run_command(with);
  EXPECT_NE(said.err.find("note       --set data.seed has no effect here: --text names what is read\n"),
            std::string::npos)
      << said.err;
}

TEST_F(ModelCommandsTest, KeysThatExportDoesNotReadAreNamed) {
  const base::Json exported =
      result_of({"export", at("hybrid.yaml"), at("exported")}, {"train.precision=bf16", "train.seed=3", "backend=xla"});
  ASSERT_EQ(exported["without_effect"].size(), 2U) << exported.dump();
  EXPECT_EQ(exported["without_effect"][0]["key"], "backend");
  EXPECT_EQ(exported["without_effect"][1]["key"], "train.precision");
  // What the weights are drawn from has no effect where they are given.
  const base::Json generated =
      result_of({"generate", at("exported"), "--ids", "1", "--max-tokens", "1"}, {"train.seed=3"});
  ASSERT_EQ(generated["without_effect"].size(), 1U) << generated.dump();
  EXPECT_EQ(generated["without_effect"][0]["reason"], "the weights are given");
}

TEST_F(ModelCommandsTest, HeldOutLossIsTheSameOnTwoChips) {
  const auto evaluated = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"eval", at("hybrid.yaml"), "--text", at("held_out.txt"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(run_command(words));
  };
  const base::Json one = evaluated({});
  EXPECT_EQ(one["tokens"], 54);
  EXPECT_NEAR(one["bits_per_byte"].get<double>(), one["loss"].get<double>() / std::log(2.0), 1e-6);
  EXPECT_NEAR(evaluated({"--set", "layout.tensor_parallel=2"})["loss"].get<double>(), one["loss"].get<double>(), 1e-5);
}

}  // namespace
}  // namespace megacpp::cli
