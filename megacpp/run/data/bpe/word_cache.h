// SPDX-License-Identifier: Apache-2.0
// The tokens of words that were encoded before. Text repeats few words often, so that most are found here. Memory is
// fixed: two words a set, the older one leaves. For one thread.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace megacpp::data::bpe {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 30;
  static constexpr size_t kMostTokens = 6;

  struct alignas(64) Entry {
    uint64_t hash = 0;
    uint8_t length = 0;  // 0: empty
    uint8_t count = 0;
    char word[kLongestWord];
    int32_t tokens[kMostTokens];
  };

  static uint64_t hash_of(std::string_view word) { return XXH3_64bits(word.data(), word.size()); }

  /// Nullptr where the word is not there.
  const Entry* find(std::string_view word, uint64_t hash) const {
    const Entry* set = &entries_[set_of(hash)];
    for (const Entry* entry = set; entry != set + 2; ++entry)
      if (entry->hash == hash && entry->length == word.size() &&
          std::memcmp(entry->word, word.data(), word.size()) == 0)
        return entry;
    return nullptr;
  }

  /// Of a word of 1 to kLongestWord bytes; one of more than kMostTokens tokens is not kept.
  void add(std::string_view word, uint64_t hash, std::span<const int32_t> tokens) {
    if (tokens.size() > kMostTokens) return;
    Entry* set = &entries_[set_of(hash)];
    set[1] = set[0];
    set->hash = hash;
    set->length = static_cast<uint8_t>(word.size());
    set->count = static_cast<uint8_t>(tokens.size());
    std::memcpy(set->word, word.data(), word.size());
    std::copy(tokens.begin(), tokens.end(), set->tokens);
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 15;  // 2 MiB
  static size_t set_of(uint64_t hash) { return (hash & (kEntries - 1)) & ~size_t{1}; }

  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

}  // namespace megacpp::data::bpe
