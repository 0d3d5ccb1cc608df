// SPDX-License-Identifier: Apache-2.0
// The merges of a byte-level BPE: which pairs of tokens become one, the lowest rank first.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace megacpp::data::bpe {

struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
};

/// Memory of one thread that merges.
struct MergeWorkspace {
  struct Symbol {
    int32_t id;
    int32_t previous;  // indices; -1: none
    int32_t next;
  };
  struct Candidate {
    uint32_t rank;
    int32_t at;  // index of the left symbol
    int32_t left, right;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

class Merges {
 public:
  Merges() = default;
  /// `merges` by rank; of a pair that is there twice the last counts.
  Merges(std::array<int32_t, 256> byte_tokens, std::span<const Merge> merges);

  /// Appends the tokens of one word: its bytes, the pair of the lowest rank merged until there is none, the leftmost
  /// where ranks are equal. Time grows as n log n with the word.
  void encode(std::string_view word, MergeWorkspace& workspace, std::vector<int32_t>& out) const;

 private:
  static constexpr uint32_t kNoRank = ~uint32_t{0};
  struct Slot {
    uint64_t pair = ~uint64_t{0};
    uint32_t rank = kNoRank;
    int32_t merged = 0;
  };
  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t first_slot(uint64_t pair) const { return (pair * 0x9e3779b97f4a7c15u) >> shift_; }
  const Slot& find(int32_t left, int32_t right) const;
  void encode_short(std::string_view word, std::vector<int32_t>& out) const;
  void encode_long(std::string_view word, MergeWorkspace& workspace, std::vector<int32_t>& out) const;
  void push(MergeWorkspace& workspace, int32_t at) const;

  std::array<int32_t, 256> byte_tokens_{};
  std::vector<Slot> slots_ = std::vector<Slot>(2);  // open addressing; a power of two
  int shift_ = 63;
};

}  // namespace megacpp::data::bpe
