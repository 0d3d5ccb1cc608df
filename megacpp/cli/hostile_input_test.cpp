// SPDX-License-Identifier: Apache-2.0
// Inputs that no honest user gives: devices, bytes that are no text, numbers at the edge. Every ending keeps the error
// contract, which the runner of commands judges; each case here also says which error it has to be.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/cli/json.h"
#include "megacpp/core/base/file.h"
#include "megacpp/hardware/catalog/catalog.h"
#include "megacpp/run/checkpoint/safetensors.h"
#include "tests/support/child_command.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/text.h"

namespace megacpp::cli {
namespace {

using testing_support::CommandResult;
using testing_support::Ending;
using testing_support::has;
using testing_support::Variable;

std::vector<std::string> tiny_nam52(const std::string& command, const std::vector<std::string>& more = {}) {
  return testing_support::on_recipe(command, "nam52-tiny.yaml",
                                    {"model.depth=2", "train.sequence=32", "train.batch=2", "train.steps=1"}, more);
}

class HostileInputTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    base::write_file_atomically(folder_ / name, text);
    return (folder_ / name).string();
  }

  /// The error of a command that has to fail with this code.
  static std::string refused(const std::string& code, const std::vector<std::string>& words) {
    const CommandResult result = testing_support::run_command(words);
    EXPECT_TRUE(has(result.err, "error " + code)) << words[0] << " " << words[1] << "\n" << result.err;
    return result.err;
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(HostileInputTest, DevicesAndFifosAreNoInputFiles) {
  const std::string fifo = (folder_ / "fifo").string(), chip = (folder_ / "chip.yaml").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(chip.c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), fifo}) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"plan", path}, tiny_nam52("train", {"--set", "data.text=" + path}),
          std::vector<std::string>{"parity", path}, std::vector<std::string>{"hw", "show", path},
          std::vector<std::string>{"plugins", "fetch", "cpu", "--wheel", path}}) {
      const Ending ending = testing_support::run_child({.words = words, .time_limit = std::chrono::seconds(60)});
      EXPECT_EQ(ending.status, 2) << ending.err;
      EXPECT_TRUE(has(ending.err, "error E1008")) << words[0] << "\n" << ending.err;
    }
  }
  const Ending ending = testing_support::run_child({.words = tiny_nam52("plan", {"--hardware", chip})});
  EXPECT_TRUE(has(ending.err, "error E1008")) << ending.err;
}

/// Every argument of every command that takes a path; `text` is some that can be read.
std::vector<std::vector<std::string>> commands_with_path(const std::string& path, const std::string& text) {
  const std::string recipe = std::string(MEGACPP_SOURCE_DIR) + "/recipes/nam52-tiny.yaml";
  std::vector<std::vector<std::string>> commands = {
      {"train", "--resume", path},
      {"runs", "list", path},
      {"runs", "show", path},
      {"runs", "export", path, "--csv", path},
      {"receipt", "show", path},
      {"flight", "show", path},
      {"compare", path, path},
      {"ceilings", "probe", recipe, "--dir", path},
      {"doctor", "--only", "machine", "--lock", path},
      {"doctor", "--write", path},
      {"checkpoint", "show", path},
      {"checkpoint", "verify", path},
      {"checkpoint", "convert", path, "--to", path},
      {"checkpoint", "average", path, path, "--to", path},
      {"parity", path},
      {"data", "tokenize", path, "--out", path + "-dataset"},
      {"data", "tokenize", text, "--out", path + "/dataset"},
      {"data", "tokenize", text, "--out", text + ".dataset", "--tokenizer", path},
      {"data", "show", path},
      {"data", "train-tokenizer", path},
      {"data", "train-tokenizer", text, "--vocab", "257", "--out", path},
      {"export", path, path},
      {"export", recipe, text + ".export", "--tokenizer", path},
      {"generate", path, "--prompt", "a"},
      {"generate", recipe, "--prompt", "a", "--max-tokens", "1", "--tokenizer", path},
      {"generate", recipe, "--prompt", "a", "--max-tokens", "1", "--logits", path},
      {"eval", path, "--text", text},
      {"eval", recipe, "--text", path},
      {"eval", recipe, "--text", text, "--tokenizer", path},
      {"catalog", "list", "--catalog", path},
      {"hw", "show", path},
      {"hw", "bytes", path, "f32", "8,8"},
      {"plugins", "fetch", "cpu", "--wheel", path}};
  for (const char* command : {"plan", "train", "compile", "explain", "fit"}) commands.push_back({command, path});
  for (const char* command : {"plan", "fit"}) commands.push_back(tiny_nam52(command, {"--html", path}));
  for (const char* command : {"plan", "fit"}) commands.push_back(tiny_nam52(command, {"--hardware", path}));
  for (const char* flag : {"--run-dir", "--trace", "--from"}) commands.push_back(tiny_nam52("train", {flag, path}));
  commands.push_back(tiny_nam52("train", {"--set", "data.text=" + path}));
  commands.push_back(tiny_nam52("train", {"--set", "data.blend=[" + path + "]"}));
  commands.push_back(tiny_nam52("compile", {"--dump-dir", path}));
  commands.push_back(tiny_nam52("sweep", {"--axis", "train.batch=1,2", "--dir", path}));
  return commands;
}

// What the system refuses to follow: the runner of commands judges that each error has a code and is no defect.
TEST_F(HostileInputTest, LoopingLinksAndLongNamesAreErrorsOfThePath) {
  const std::string text = file("text.txt", "some text to read");
  std::filesystem::create_symlink("loop", folder_ / "loop");
  for (const std::string& path : {(folder_ / "loop").string(), (folder_ / std::string(300, 'x')).string()})
    for (const std::vector<std::string>& words : commands_with_path(path, text))
      EXPECT_NE(testing_support::run_command(words).status, 0) << words[0] << " " << words[1];
}

TEST_F(HostileInputTest, ACatalogThatCannotBeFollowedIsLeftOutAndSaid) {
  std::filesystem::create_symlink("loop", folder_ / "loop");
  for (const std::string& path : {(folder_ / "loop").string(), (folder_ / std::string(300, 'x')).string()})
    for (const char* command : {"plan", "train"}) {
      const CommandResult result = testing_support::run_command(tiny_nam52(command, {"--catalog", path}));
      EXPECT_EQ(result.status, 0) << result.err;
      EXPECT_TRUE(has(result.err, "not used: E")) << result.err;
    }
}

TEST_F(HostileInputTest, NamesThatAreNoTextAreRefusedOrShownEscaped) {
  const std::string err = refused("E1003", tiny_nam52("plan", {"--json", "--set", "name=a\xff"}));
  EXPECT_TRUE(has(err, "got:    'a\\xff'")) << err;
  refused("E1004", {"plan", file("latin.yaml", "name: caf\xe9\nmodel:\n  pattern: AE\n")});
  EXPECT_TRUE(has(refused("E1008", {"plan", "/no/such/\xff"}), "where:  /no/such/\\xff"));
}

TEST_F(HostileInputTest, ACatalogWithSuchANameIsStillListed) {
  const std::string catalog = (folder_ / "catalog.sqlite").string();
  catalog::Catalog::open(catalog).record({.signature = {.build = {.code_version = "0.1.0"},
                                                        .hardware = "host:1",
                                                        .model = "a\xff",
                                                        .model_hash = "00ff",
                                                        .layout = "data=1",
                                                        .features = "",
                                                        .shape = "batch=8 sequence=4096"},
                                          .at = "2026-11-15T17:00:00Z",
                                          .fits = true});
  for (const std::vector<std::string>& words : {std::vector<std::string>{"catalog", "list", "--catalog", catalog},
                                                {"catalog", "show", "1", "--catalog", catalog}}) {
    EXPECT_EQ(testing_support::run_command(words).status, 0);
    std::vector<std::string> with_json = words;
    with_json.push_back("--json");
    const CommandResult result = testing_support::run_command(with_json);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(has(result.out, "a\ufffd")) << result.out;
  }
}

TEST_F(HostileInputTest, AChipFileWithSuchANameIsStillListed) {
  const Variable path("MEGACPP_HW_PATH", folder_.path().string());
  file("chip\xff.yaml", "extends: v6e\n");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"hw"}, {"hw", "--json"}}) {
    const CommandResult result = testing_support::run_command(words);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(has(result.out, "chip")) << result.out;
  }
}

TEST_F(HostileInputTest, WhatARecipeHidesIsSaid) {
  const std::string nul = refused("E1004", {"plan", file("nul.yaml", "model:\n  pattern: \"A\\0b\"\n")});
  EXPECT_TRUE(has(nul, "got:    'A\\x00b'")) << nul;
  const std::string two = refused("E1004", {"plan", file("two.yaml", "model:\n  pattern: AE\n---\nname: b\n")});
  EXPECT_TRUE(has(two, "a second document")) << two;
  EXPECT_TRUE(has(refused("E1008", {"plan", ""}), "where:  an empty path"));
  refused("E1008", {"parity", ""});
  refused("E3001", tiny_nam52("compile", {"--dump-dir", ""}));
  for (const char* flag : {"--trace", "--run-dir"}) refused("E3001", tiny_nam52("train", {flag, ""}));
  for (const char* command : {"plan", "fit"}) refused("E3001", tiny_nam52(command, {"--html", ""}));
  refused("E1008", tiny_nam52("train", {"--from", ""}));
  refused("E3001", tiny_nam52("generate", {"--ids", "1", "--logits", ""}));
  refused("E1008", tiny_nam52("generate", {"--prompt", "a", "--tokenizer", ""}));
  refused("E1008", tiny_nam52("generate", {"--prompt", "a", "--adapters", ""}));
  refused("E3001", {"data", "tokenize", folder_.path().string(), "--out", ""});
}

TEST_F(HostileInputTest, AGoldenFileWithoutItsMetadataKeepsTheContract) {
  const auto golden = [](const std::string& header) {
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    return bytes + header;
  };
  refused("E1202", {"parity", file("none.safetensors", golden("{}"))});
  refused("E1202", {"parity", file("empty.safetensors", golden(R"({"__metadata__":{"meta":"{}"}})"))});
}

TEST_F(HostileInputTest, AParityMismatchIsAnErrorWithACode) {
  std::string bytes = base::read_file(std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/models/llama_mqa.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const Json tensors = Json::parse(bytes.substr(sizeof header, header));
  bool changed = false;
  for (const auto& [name, tensor] : tensors.items()) {
    if (!name.starts_with("grad.")) continue;
    const float other = 1000;
    std::memcpy(bytes.data() + sizeof header + header + tensor["data_offsets"][0].get<size_t>(), &other, sizeof other);
    changed = true;
  }
  ASSERT_TRUE(changed);
  const std::string path = file("other.safetensors", bytes);
  const CommandResult result = testing_support::run_command({"parity", path, "--json"});
  EXPECT_EQ(result.status, 2) << result.err;
  Json json = Json::parse(result.out);
  EXPECT_EQ(json["passed"], false);
  EXPECT_EQ(json["error"]["code"], "E1303");
  EXPECT_EQ(json["error"]["where"], path);
}

TEST_F(HostileInputTest, RatesThatWouldDivideToInfinityAreRefused) {
  const auto chip = [&](const std::string& section) {
    return file("slow.yaml", "extends: v6e\nsources:\n  s: {text: none, date: 2026-11-15}\n" + section);
  };
  const std::string memory = "memory:\n  source: s\n  bandwidth: 1e-300\n";
  const std::string compute = "compute:\n  source: s\n  bf16: 1e-300\n";
  const std::string links = "links:\n  - {name: ici, scope: slice, source: s, bytes_per_second: 1e-300}\n";
  for (const std::string& section : {memory, compute, links}) {
    const std::string err = refused("E1603", tiny_nam52("plan", {"--hardware", chip(section) + ":2x2"}));
    EXPECT_TRUE(has(err, "at least 1")) << err;
  }
}

TEST_F(HostileInputTest, TheLimitThatE1605WantsIsOneThatWorks) {
  for (const char* command : {"plan", "train"}) {
    const std::string err = refused("E1605", tiny_nam52(command, {"--set", "hardware.limit=64KiB"}));
    const size_t at = err.find("a limit of at least ");
    ASSERT_NE(at, std::string::npos) << err;
    const int64_t bytes = std::stoll(err.substr(at + std::string("a limit of at least ").size()));
    const CommandResult result =
        testing_support::run_command(tiny_nam52(command, {"--set", "hardware.limit=" + std::to_string(bytes)}));
    EXPECT_EQ(result.status, 0) << command << " " << bytes << "\n" << result.err;
    EXPECT_FALSE(has(result.err, "ladder")) << result.err;
    const CommandResult less = testing_support::run_command(
        tiny_nam52(command, {"--set", "ladder.rungs=[]", "--set", "hardware.limit=" + std::to_string(bytes - 1)}));
    EXPECT_NE(less.status, 0) << "one byte less is too little";
  }
}

// What a configuration claims is held against the headers of the weights before anything of that size is planned.
TEST_F(HostileInputTest, ALayerThatWeightsDoNotHaveIsRefusedBeforeItIsPlanned) {
  file("config.json", R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 256, "hidden_size": 8,
                          "intermediate_size": 16, "num_hidden_layers": 40000, "num_attention_heads": 2,
                          "num_key_value_heads": 1, "tie_word_embeddings": true})");
  const std::vector<std::byte> bytes(256 * 8 * sizeof(float));
  checkpoint::write_safetensors(
      folder_ / "model.safetensors",
      std::vector<checkpoint::StoredTensor>{
          {.name = "model.embed_tokens.weight", .type = ir::DType::f32, .shape = {256, 8}, .bytes = bytes}},
      {});
  const std::string recipe =
      file("small.yaml", "name: small\ntrain: {batch: 1, sequence: 16, steps: 1, precision: f32}\n");
  const auto start = std::chrono::steady_clock::now();
  refused("E1203", {"train", recipe, "--from", folder_.path().string()});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << "a plan of it takes minutes";
}

TEST_F(HostileInputTest, AHuggingFaceModelIsNamed) {
  const std::string config = file("config.json", R"({"architectures": ["LlamaForCausalLM"]})");
  EXPECT_TRUE(has(refused("E1004", {"train", config}), "Hugging Face"));
  EXPECT_TRUE(has(refused("E1008", {"train", folder_.path().string()}), "Hugging Face"));
}

}  // namespace
}  // namespace megacpp::cli
