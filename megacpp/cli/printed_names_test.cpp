// SPDX-License-Identifier: Apache-2.0
// Names that hold what a terminal obeys, walked through every command that prints names: none of it arrives, and none
// makes a line of its own.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/core/base/utf8.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/model_commands.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

using Words = std::vector<std::string>;

/// Sets the title of a terminal, clears it, rings, deletes, and goes on in a line that looks like the command's own.
const std::string kName =
    "a\x1b]0;x\x07\x1b[2J\x7f\xc2\x9b"
    "2J\r\nforged 7 of 7 steps\tb";

class PrintedNamesTest : public testing::Test {
 protected:
  void SetUp() override {
    base::write_file_atomically(folder_ / "text.txt", std::string(600, 'a') + "the quick brown fox");
    std::filesystem::create_directories(at(kName));
    std::filesystem::copy_file(folder_ / "text.txt", folder_ / kName / (kName + ".txt"));
    base::write_file_atomically(folder_ / kName / "small.yaml", testing_support::kExportedRecipe);
  }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  /// Below the folder with the name.
  std::string below(const std::string& name) const { return (folder_ / kName / name).string(); }

  static void expect_harmless(const Words& words, const std::string& text) {
    EXPECT_EQ(base::printable(text), text) << words[0];
    EXPECT_FALSE(text.starts_with("forged")) << words[0];
    EXPECT_EQ(text.find("\nforged"), std::string::npos) << words[0] << "\n" << text;
  }
  /// Counts where the name is seen: a walk that prints none looks at nothing.
  void run(const Words& words) {
    const auto result = testing_support::run_command(words);
    expect_harmless(words, result.out);
    expect_harmless(words, result.err);
    says_name_ += (result.out + result.err).find("forged") != std::string::npos ? 1 : 0;
  }
  static Words trained(const std::string& recipe, const Words& more) {
    Words words = {"train", recipe, "--no-catalog"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  const testing_support::TemporaryFolder folder_;
  size_t says_name_ = 0;
};

TEST_F(PrintedNamesTest, OfRunsAndCheckpoints) {
  const Words settings = {
      "--set", "train.steps=2", "--set", "checkpoint.every=1", "--set", "data.text=[" + at("text.txt") + "]"};
  base::write_file_atomically(below("named.yaml"),
                              "name: \"x\\tb\\nforged\"\n" + std::string(testing_support::kExportedRecipe).substr(13));
  for (const char* name : {"first", "second"}) {
    Words words = trained(below("named.yaml"), {"--run-dir", below(name + kName), "--verbose", "--tensorboard"});
    words.insert(words.end(), settings.begin(), settings.end());
    run(words);
  }
  const std::string first = below("first" + kName), second = below("second" + kName);
  run({"train", "--resume", first});
  run({"runs", "list", below("")});
  run({"runs", "show", first});
  run({"runs", "export", first, "--csv", below(kName + ".csv")});
  run({"receipt", "show", first});
  run({"compare", first, second});
  run({"compare", below("")});
  run({"report", first, "--out", below(kName + ".html")});
  run({"ceilings", "--runs", below("")});
  run({"flight", "show", first});
  for (const char* word : {"show", "verify"}) run({"checkpoint", word, first});
  run({"checkpoint", "convert", first, "--to", below("converted" + kName)});
  run({"checkpoint", "average", first, second, "--to", below("mean" + kName)});
  run({"export", first, below("exported" + kName)});
  run({"train", below("small.yaml"), "--from", first, "--run-dir", below("third" + kName), "--set", "train.steps=1",
       "--set", "data.text=[" + at("text.txt") + "]"});
  base::write_file_atomically(first + "/log.jsonl", kName);
  base::write_file_atomically(second + "/receipt.json", "{\"" + kName);
  for (const std::string& one : {first, second}) {
    run({"runs", "list", below("")});
    run({"receipt", "show", one});
    run({"report", one, "--out", below("page.html")});
  }
  run({"ceilings", "--runs", below("")});
  EXPECT_GE(says_name_, 18U);
}

TEST_F(PrintedNamesTest, OfRecipesDataAndModels) {
  const std::string recipe = below("small.yaml"), text = below(kName + ".txt");
  for (const char* command : {"plan", "fit", "explain", "compile"}) {
    run({command, recipe, "--set", "data.text=[" + at("text.txt") + "]"});
    run({command, below("absent")});
    run({command, recipe, "--set", kName + "=1"});
    run({command, recipe, "--set", "name=" + kName});
  }
  run({"plan", recipe, "--html", below("plan.html")});
  run({"plan", recipe, "--hardware", kName});
  run({"plan", recipe, "--catalog", below("catalog")});
  run({"compile", recipe, "--dump-dir", below("dump")});
  run({"data", "tokenize", text, "--out", below("set")});
  run({"data", "tokenize", text, "--out", below("set")});
  run({"data", "show", below("set")});
  run({"data", "show", below("absent")});
  run({"data", "train-tokenizer", text, "--vocab", "258", "--out", below("tokenizer.json")});
  run({"data", "train-tokenizer", text, "--vocab", "258", "--out", below("tokenizer.json")});
  run({"eval", recipe, "--text", text, "--tokenizer", below("tokenizer.json"), "--set", "model.vocab=258"});
  run({"eval", recipe, "--text", below("absent")});
  run({"generate", recipe, "--ids", kName});
  run({"generate", recipe, "--prompt", "a", "--tokenizer", below("absent"), "--max-tokens", "1"});
  run({"parity", below("absent")});
  run({"runs", "show", below("absent")});
  run({kName});
  run({"plan", kName});
  run({"plan", "--" + kName});
  run({"plan", recipe, "--top=" + kName});
  run({"fit", recipe, "--top=" + kName});
  EXPECT_GE(says_name_, 24U);
}

TEST_F(PrintedNamesTest, OfTensorsConfigsChipsAndCatalogs) {
  run({"export", below("small.yaml"), below("model")});
  const std::string weights = below("model/model.safetensors"), config = below("model/config.json");
  std::string bytes = base::read_file(weights);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  Json header = Json::parse(bytes.substr(sizeof length, length));
  header[kName] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
  const std::string text = header.dump(), data = bytes.substr(sizeof length + length);
  length = text.size();
  bytes.replace(sizeof length, std::string::npos, text + data);
  std::memcpy(bytes.data(), &length, sizeof length);
  base::write_file_atomically(weights, bytes);
  run({"export", below("model"), below("again")});
  Json described = Json::parse(base::read_file(config));
  described["architectures"] = {kName};
  base::write_file_atomically(config, described.dump());
  run({"generate", below("model"), "--prompt", "a"});
  run({"parity", weights});

  const std::string catalog = below("catalog.sqlite");
  catalog::Catalog::open(catalog).record({.signature = {.build = {.code_version = kName, .platform = kName},
                                                        .hardware = kName,
                                                        .model = kName,
                                                        .model_hash = "00ff",
                                                        .layout = kName,
                                                        .features = kName,
                                                        .shape = kName},
                                          .at = kName,
                                          .fits = true,
                                          .note = kName});
  run({"catalog", "list", "--catalog", catalog});
  run({"catalog", "show", "1", "--catalog", catalog});
  run({"catalog", "show", kName, "--catalog", catalog});
  run({"catalog", "forget", "1", "--catalog", catalog});

  const testing_support::Variable chips("MEGACPP_HW_PATH", below(""));
  base::write_file_atomically(below("chip" + kName + ".yaml"), "extends: v6e\ntitle: \"x\\nforged\\tb\"\n");
  base::write_file_atomically(below("bad" + kName + ".yaml"), "extends: nothing\n");
  run({"hw"});
  run({"hw", "show", below("chip" + kName + ".yaml")});
  run({"hw", "show", below("bad" + kName + ".yaml")});
  run({"hw", "bytes", below("chip" + kName + ".yaml"), "f32", "8,8"});
  run({"plan", below("small.yaml"), "--hardware", below("chip" + kName + ".yaml") + ":1x1"});
  run({"fit", below("small.yaml"), "--hardware", below("chip" + kName + ".yaml") + ":1x1", "--tries", "1"});
  run({"doctor", "--only", "machine", "--lock", below("absent")});
  run({"plugins", "fetch", "cpu", "--wheel", below("absent")});
  EXPECT_GE(says_name_, 12U);
}

TEST_F(PrintedNamesTest, OfSweeps) {
  const auto swept = testing_support::run_child(
      {.words = {"sweep", below("small.yaml"), "--axis", "layout.tensor_parallel=3,5", "--repeats", "1", "--dir",
                 below("sweep" + kName), "--set", "data.text=[" + at("text.txt") + "]"}});
  expect_harmless({"sweep"}, swept.out);
  expect_harmless({"sweep"}, swept.err);
  EXPECT_NE(swept.err.find("forged"), std::string::npos) << swept.err;
}

}  // namespace
}  // namespace megacpp::cli
