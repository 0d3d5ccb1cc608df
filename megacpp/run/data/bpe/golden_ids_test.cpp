// SPDX-License-Identifier: Apache-2.0
// Ids against those of Hugging Face's tokenizers: tests/golden/make_tokenizers.py wrote the files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "megacpp/run/data/tokenizer.h"

namespace megacpp::data::bpe {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldenFolder = fs::path(MEGACPP_SOURCE_DIR) / "tests/golden/tokenizers";
/// Normalization, and tokens that take white space along, do not give every byte back.
const std::set<std::string> kLossy = {"qwen2", "added"};

struct GoldenCase {
  std::string bytes;
  std::vector<int32_t> ids;
};

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<GoldenCase> golden_cases(const fs::path& folder) {
  const base::Json file = base::parse_json(base::read_file(folder / "ids.json"), base::Code::E1303, "ids.json");
  std::vector<GoldenCase> cases;
  for (const base::Json& entry : file.at("cases"))
    cases.push_back({from_hex(entry.at("bytes")), entry.at("ids").get<std::vector<int32_t>>()});
  return cases;
}

std::vector<fs::path> golden_folders() {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(kGoldenFolder)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

TEST(GoldenIdsTest, AreThoseOfHuggingFace) {
  ASSERT_GE(golden_folders().size(), 9u);
  for (const fs::path& folder : golden_folders()) {
    const auto tokenizer = load_tokenizer(folder.string());
    for (const GoldenCase& golden : golden_cases(folder)) {
      std::vector<int32_t> ids;
      tokenizer->encode(golden.bytes, ids);
      EXPECT_EQ(ids, golden.ids) << folder.filename() << ": " << golden.bytes;
    }
  }
}

TEST(GoldenIdsTest, GiveEveryByteBack) {
  for (const fs::path& folder : golden_folders()) {
    if (kLossy.contains(folder.filename().string())) continue;
    const auto tokenizer = load_tokenizer(folder.string());
    for (const GoldenCase& golden : golden_cases(folder))
      EXPECT_EQ(tokenizer->decode(golden.ids), golden.bytes) << folder.filename();
  }
}

TEST(GoldenIdsTest, AreTheSameOnManyThreads) {
  const fs::path folder = kGoldenFolder / "llama3";
  const auto tokenizer = load_tokenizer(folder.string());
  const std::vector<GoldenCase> cases = golden_cases(folder);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t worker = 0; worker < wrong.size(); ++worker)
    threads.emplace_back([&, worker] {
      for (const GoldenCase& golden : cases) {
        std::vector<int32_t> ids;
        tokenizer->encode(golden.bytes, ids);
        wrong[worker] += ids != golden.ids;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(GoldenIdsTest, FilesHaveTheirEndOfDocumentAndFingerprint) {
  std::set<uint64_t> fingerprints;
  for (const fs::path& folder : golden_folders()) {
    const auto tokenizer = load_tokenizer((folder / "tokenizer.json").string());
    ASSERT_TRUE(tokenizer->end_of_document().has_value()) << folder;
    const int32_t end = *tokenizer->end_of_document();
    EXPECT_EQ(tokenizer->decode(std::span(&end, 1)), "<|endoftext|>");
    EXPECT_TRUE(fingerprints.insert(tokenizer->fingerprint()).second) << folder;
    EXPECT_EQ(tokenizer->fingerprint(), load_tokenizer(folder.string())->fingerprint());
  }
}

}  // namespace
}  // namespace megacpp::data::bpe
