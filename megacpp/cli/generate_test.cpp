// SPDX-License-Identifier: Apache-2.0
// The commands that take a model along: export, generate and eval.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "megacpp/base/file.h"
#include "megacpp/base/json.h"
#include "megacpp/checkpoint/hf_folder.h"
#include "megacpp/checkpoint/writer.h"
#include "tests/support/command_line.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::run_command;

constexpr const char* kRecipe = R"(name: hybrid
model:
  pattern: MEA
  depth: 3
  hidden: 16
  vocab: 256
  attention: {heads: 4, kv_heads: 2, head_dim: 4, rope: false}
  feed_forward: {intermediate: 24, activation: relu2}
  mamba: {heads: 4, head_dim: 8, state: 4, groups: 2, chunk: 8}
train: {batch: 2, sequence: 16, steps: 1, threads: 1}
)";

base::Json parsed(const CommandResult& result) {
  EXPECT_EQ(result.status, 0) << result.err;
  return base::parse_json(result.out, base::Code::E1202, "output");
}

class ModelCommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    base::write_file_atomically(folder_ / "hybrid.yaml", kRecipe);
    base::write_file_atomically(folder_ / "held_out.txt", "the quick brown fox jumps over the lazy dog, twice over");
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(ModelCommandsTest, AnExportedFolderIsTheModelOfItsRecipe) {
  const base::Json exported = parsed(run_command({"export", at("hybrid.yaml"), at("exported"), "--json"}));
  EXPECT_EQ(exported["class"], "NemotronHForCausalLM");
  const auto generated = [&](const std::string& source) {
    return parsed(run_command({"generate", source, "--ids", "1 2 3", "--ids", "4", "--max-tokens", "6", "--temperature",
                               "0", "--json"}))["sequences"];
  };
  EXPECT_EQ(generated(at("hybrid.yaml")), generated(at("exported")));
  const CommandResult again = run_command({"export", at("hybrid.yaml"), at("exported")});
  EXPECT_NE(again.err.find("E3001"), std::string::npos) << again.err;
}

TEST_F(ModelCommandsTest, ACheckpointOfARunIsASource) {
  std::filesystem::create_directories(at("run"));
  base::write_file_atomically(folder_ / "run/recipe.yaml", kRecipe);
  EXPECT_NE(run_command({"export", at("run"), at("none")}).err.find("E1206"), std::string::npos);
  parsed(run_command({"export", at("hybrid.yaml"), at("first"), "--json"}));
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
  parsed(run_command({"export", at("run"), at("second"), "--json"}));
  parsed(run_command({"export", store.path_of(3).string(), at("third"), "--json"}));
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
        parsed(run_command({"generate", at("hybrid.yaml"), "--ids", "1 2 3 4 5", "--max-tokens", "6", "--temperature",
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
  EXPECT_NE(refusal({}).find("E1001"), std::string::npos);
  EXPECT_NE(refusal({"--ids", "1 x"}).find("E1102"), std::string::npos);
  EXPECT_NE(refusal({"--ids", "256"}).find("E1102"), std::string::npos);
  EXPECT_NE(refusal({"--prompt", ""}).find("E1102"), std::string::npos);
  EXPECT_NE(refusal({"--ids", "1", "--top-p", "2"}).find("E1003"), std::string::npos);
}

TEST_F(ModelCommandsTest, HeldOutLossIsTheSameOnTwoChips) {
  const auto evaluated = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"eval", at("hybrid.yaml"), "--text", at("held_out.txt"), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return parsed(run_command(words));
  };
  const base::Json one = evaluated({});
  EXPECT_EQ(one["tokens"], 54);
  EXPECT_NEAR(one["bits_per_byte"].get<double>(), one["loss"].get<double>() / std::log(2.0), 1e-6);
  EXPECT_NEAR(evaluated({"--set", "layout.tensor_parallel=2"})["loss"].get<double>(), one["loss"].get<double>(), 1e-5);
}

}  // namespace
}  // namespace megacpp::cli
