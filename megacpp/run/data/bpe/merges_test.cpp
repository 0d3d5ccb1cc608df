// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/merges.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <string>

namespace megacpp::data::bpe {
namespace {

std::array<int32_t, 256> own_values() {
  std::array<int32_t, 256> tokens{};
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

/// Merges of random tokens that are made of a and b.
std::vector<Merge> random_merges(std::mt19937& random, int count) {
  std::vector<Merge> merges;
  std::vector<int32_t> tokens = {'a', 'b'};
  const auto drawn = [&] { return tokens[std::uniform_int_distribution<size_t>(0, tokens.size() - 1)(random)]; };
  for (int32_t i = 0; i < count; ++i) {
    merges.push_back({.left = drawn(), .right = drawn(), .merged = 256 + i});
    tokens.push_back(256 + i);
  }
  return merges;
}

/// The definition: the lowest rank there is, leftmost first, one merge at a time.
std::vector<int32_t> reference_encode(const std::string& word, const std::vector<Merge>& merges) {
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t rank = 0; rank < merges.size(); ++rank) ranks[{merges[rank].left, merges[rank].right}] = rank;
  std::vector<int32_t> ids(word.begin(), word.end());
  while (true) {
    size_t best = merges.size(), at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found != ranks.end() && found->second < best) best = found->second, at = i;
    }
    if (best == merges.size()) return ids;
    ids[at] = merges[best].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(MergesTest, EqualTheDefinitionForShortAndLongWords) {
  std::mt19937 random(18);
  MergeWorkspace workspace;
  for (int round = 0; round < 300; ++round) {
    const std::vector<Merge> merges = random_merges(random, 1 + round % 40);
    const Merges fast(own_values(), merges);
    for (const size_t size : {1, 2, 3, 7, 30, 47, 48, 49, 50, 120}) {
      std::string word(size, 'a');
      for (char& c : word) c = std::uniform_int_distribution(0, 3)(random) == 0 ? 'b' : 'a';
      std::vector<int32_t> ids;
      fast.encode(word, workspace, ids);
      ASSERT_EQ(ids, reference_encode(word, merges)) << word;
    }
  }
}

TEST(MergesTest, LeaveBytesWithoutMerges) {
  MergeWorkspace workspace;
  std::vector<int32_t> ids;
  Merges(own_values(), {}).encode("abc", workspace, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{'a', 'b', 'c'}));
}

TEST(MergesTest, TakeALongWordInTimeThatIsNearlyLinear) {
  std::vector<Merge> merges = {{'a', 'a', 256}};
  for (int32_t i = 0; i < 20; ++i) merges.push_back({256 + i, 256 + i, 257 + i});
  MergeWorkspace workspace;
  std::vector<int32_t> ids;
  Merges(own_values(), merges).encode(std::string(size_t{1} << 20, 'a'), workspace, ids);
  EXPECT_EQ(ids, std::vector<int32_t>{275});
}

}  // namespace
}  // namespace megacpp::data::bpe
