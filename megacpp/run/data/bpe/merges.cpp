// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/merges.h"

#include <algorithm>
#include <bit>

namespace megacpp::data::bpe {
namespace {

/// Up to this length looking at all pairs again is faster than a heap.
constexpr size_t kShortWord = 48;

/// Of a max-heap: the pair to merge next is the greatest.
bool comes_later(const MergeWorkspace::Candidate& a, const MergeWorkspace::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

Merges::Merges(std::array<int32_t, 256> byte_tokens, std::span<const Merge> merges) : byte_tokens_(byte_tokens) {
  slots_.assign(std::bit_ceil(2 * merges.size() + 2), {});
  shift_ = 64 - std::countr_zero(slots_.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    size_t at = first_slot(pair);
    while (slots_[at].rank != kNoRank && slots_[at].pair != pair) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {.pair = pair, .rank = static_cast<uint32_t>(rank), .merged = merges[rank].merged};
  }
}

const Merges::Slot& Merges::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  size_t at = first_slot(pair);
  while (slots_[at].pair != pair && slots_[at].rank != kNoRank) at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

void Merges::encode(std::string_view word, MergeWorkspace& workspace, std::vector<int32_t>& out) const {
  word.size() <= kShortWord ? encode_short(word, out) : encode_long(word, workspace, out);
}

void Merges::encode_short(std::string_view word, std::vector<int32_t>& out) const {
  std::array<int32_t, kShortWord> ids;
  std::array<Slot, kShortWord> pairs;  // of ids[i] and ids[i + 1]
  size_t count = word.size();
  for (size_t i = 0; i < count; ++i) ids[i] = byte_tokens_[static_cast<uint8_t>(word[i])];
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = find(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == kNoRank) break;
    ids[best] = pairs[best].merged;
    std::copy(ids.begin() + best + 2, ids.begin() + count, ids.begin() + best + 1);
    if (best + 2 < count) std::copy(pairs.begin() + best + 2, pairs.begin() + count - 1, pairs.begin() + best + 1);
    --count;
    if (best > 0) pairs[best - 1] = find(ids[best - 1], ids[best]);
    if (best + 1 < count) pairs[best] = find(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + count);
}

void Merges::push(MergeWorkspace& workspace, int32_t at) const {
  const MergeWorkspace::Symbol& left = workspace.symbols[static_cast<size_t>(at)];
  if (left.next < 0) return;
  const int32_t right = workspace.symbols[static_cast<size_t>(left.next)].id;
  const Slot& slot = find(left.id, right);
  if (slot.rank == kNoRank) return;
  workspace.heap.push_back({.rank = slot.rank, .at = at, .left = left.id, .right = right});
  std::push_heap(workspace.heap.begin(), workspace.heap.end(), comes_later);
}

void Merges::encode_long(std::string_view word, MergeWorkspace& workspace, std::vector<int32_t>& out) const {
  std::vector<MergeWorkspace::Symbol>& symbols = workspace.symbols;
  symbols.clear();
  workspace.heap.clear();
  const auto count = static_cast<int32_t>(word.size());
  for (int32_t i = 0; i < count; ++i)
    symbols.push_back({.id = byte_tokens_[static_cast<uint8_t>(word[static_cast<size_t>(i)])],
                       .previous = i - 1,
                       .next = i + 1 < count ? i + 1 : -1});
  for (int32_t i = 0; i + 1 < count; ++i) push(workspace, i);
  while (!workspace.heap.empty()) {
    std::pop_heap(workspace.heap.begin(), workspace.heap.end(), comes_later);
    const MergeWorkspace::Candidate best = workspace.heap.back();
    workspace.heap.pop_back();
    MergeWorkspace::Symbol& left = symbols[static_cast<size_t>(best.at)];
    if (left.id != best.left || left.next < 0) continue;  // merged since
    MergeWorkspace::Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (right.id != best.right) continue;
    left.id = find(best.left, best.right).merged;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.at;
    if (left.previous >= 0) push(workspace, left.previous);
    push(workspace, best.at);
  }
  for (int32_t at = 0; at >= 0; at = symbols[static_cast<size_t>(at)].next)
    out.push_back(symbols[static_cast<size_t>(at)].id);
}

}  // namespace megacpp::data::bpe
