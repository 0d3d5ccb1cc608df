// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/trainer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "megacpp/run/data/bpe/bpe_tokenizer.h"
#include "tests/support/errors.h"

namespace megacpp::data::bpe {
namespace {

namespace fs = std::filesystem;

/// Counts every pair again for each merge.
std::vector<std::string> reference_tokens(const std::vector<CountedWord>& words, size_t wanted) {
  std::vector<std::vector<std::string>> parts;
  std::vector<std::string> tokens;
  std::map<std::string, int> ids;
  for (int byte = 0; byte < 256; ++byte) ids[tokens.emplace_back(1, static_cast<char>(byte))] = byte;
  for (const CountedWord& word : words) {
    parts.emplace_back();
    for (const char c : word.word) parts.back().emplace_back(1, c);
  }
  while (tokens.size() < wanted) {
    std::map<std::pair<int, int>, int64_t> counts;
    for (size_t w = 0; w < parts.size(); ++w)
      for (size_t i = 0; i + 1 < parts[w].size(); ++i)
        counts[{ids[parts[w][i]], ids[parts[w][i + 1]]}] += words[w].count;
    std::pair<int, int> best;
    int64_t most = 1;
    for (const auto& [pair, count] : counts)
      if (count > most) best = pair, most = count;
    if (most < 2) break;
    const std::string left = tokens[static_cast<size_t>(best.first)], right = tokens[static_cast<size_t>(best.second)];
    if (ids.emplace(left + right, static_cast<int>(tokens.size())).second) tokens.push_back(left + right);
    for (auto& word : parts)
      for (size_t i = 0; i + 1 < word.size(); ++i)
        if (word[i] == left && word[i + 1] == right)
          word[i] += right, word.erase(word.begin() + static_cast<long>(i) + 1);
  }
  return tokens;
}

std::vector<CountedWord> random_words(std::mt19937& random) {
  std::map<std::string, int64_t> counts;
  for (int i = 0; i < 40; ++i) {
    std::string word(std::uniform_int_distribution<size_t>(1, 12)(random), 'a');
    for (char& c : word) c = static_cast<char>('a' + std::uniform_int_distribution(0, 2)(random));
    counts[word] += std::uniform_int_distribution(1, 9)(random);
  }
  std::vector<CountedWord> words;
  for (const auto& [word, count] : counts) words.push_back({word, count});
  return words;
}

TEST(TrainerTest, EqualsCountingAgainForEachMerge) {
  std::mt19937 random(18);
  for (int round = 0; round < 50; ++round) {
    const std::vector<CountedWord> words = random_words(random);
    const TrainedBpe trained = train_bpe(words, {.vocabulary = 320, .special = {}});
    ASSERT_EQ(trained.tokens, reference_tokens(words, 320)) << round;
  }
}

TEST(TrainerTest, StopsWhereNoPairOccursTwice) {
  const std::vector<CountedWord> words = {{"abc", 1}, {"xyxy", 1}};
  const TrainedBpe trained = train_bpe(words, {.vocabulary = 1000, .special = {"<s>"}});
  ASSERT_EQ(trained.merges.size(), 1u);
  EXPECT_EQ(trained.tokens.back(), "xy");
  EXPECT_EQ(read_bpe(write_bpe(trained), "t").tokens.size(), 258u);
}

TEST(TrainerTest, LeavesSpecialTokensOutOfMerges) {
  const std::vector<CountedWord> words = {{"ab", 100}, {"abab", 100}};
  const TrainedBpe trained = train_bpe(words, {.vocabulary = 300, .special = {"ab"}});
  for (const std::string& token : trained.tokens) EXPECT_NE(token, "ab");
  EXPECT_NO_THROW(read_bpe(write_bpe(trained), "t"));
}

TEST(TrainerTest, RefusesWhatCannotBeTrained) {
  const std::vector<CountedWord> words = {{"ab", 2}};
  const auto code = [&](std::span<const CountedWord> from, const TrainOptions& options) {
    return testing_support::error_of([&] { train_bpe(from, options); }).code();
  };
  EXPECT_EQ(code(words, {.vocabulary = 256}), base::Code::E1003);
  EXPECT_EQ(code(words, {.vocabulary = int64_t{1} << 30}), base::Code::E1003);
  EXPECT_EQ(code(words, {.special = {""}}), base::Code::E1003);
  EXPECT_EQ(code(words, {.special = {"a", "a"}}), base::Code::E1003);
  EXPECT_EQ(code(words, {.special = {"\xff"}}), base::Code::E1003);
  EXPECT_EQ(code({}, {}), base::Code::E1101);
}

TEST(WordCountsTest, AreTheSameForAnyNumberOfThreads) {
  const fs::path folder = fs::path(testing::TempDir()) / "word-counts";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "a.txt") << "the cat sat on the mat\xff\xfe the";
  std::ofstream(folder / "b.jsonl") << R"({"text": "the end"})"
                                    << "\n\n"
                                    << R"({"text": ""})"
                                    << "\n";
  int64_t reported = 0;
  const auto count = [&](int threads) {
    return count_words({.sources = {folder.string()}, .threads = threads, .on_progress = [&](int64_t bytes, int64_t) {
                          reported = bytes;
                        }});
  };
  const std::vector<CountedWord> one = count(1), two = count(2);
  EXPECT_GT(reported, 0);
  ASSERT_EQ(one.size(), two.size());
  std::map<std::string, int64_t> counts;
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].word, two[i].word);
    EXPECT_EQ(one[i].count, two[i].count);
    counts[one[i].word] = one[i].count;
  }
  EXPECT_EQ(counts["the"], 2);
  EXPECT_EQ(counts[" the"], 2);
  EXPECT_EQ(counts["\xff\xfe"], 1);
  std::ofstream(folder / "c.jsonl") << "{\n";
  EXPECT_EQ(testing_support::error_of([&] { count(2); }).code(), base::Code::E1008);
}

}  // namespace
}  // namespace megacpp::data::bpe
