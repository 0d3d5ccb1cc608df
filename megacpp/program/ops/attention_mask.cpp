// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/attention_mask.h"

#include <algorithm>
#include <cstdlib>

namespace megacpp::ops {
namespace {

Cover cover_of(bool all, bool none) { return none ? Cover::none : all ? Cover::all : Cover::some; }
Cover both(Cover a, Cover b) { return std::min(a, b); }
Cover either(Cover a, Cover b) { return std::max(a, b); }

PositionRange blocks_of(PositionRange positions, int64_t block) {
  return {positions.low / block, positions.high / block};
}

// Sum over i in `of` of i + shift - within.begin, each brought into 0 .. the range's length.
int64_t sum_clamped(KeyRange of, int64_t shift, KeyRange within) {
  const int64_t first = of.begin + shift, end = of.end + shift;
  const int64_t rising_begin = std::clamp(within.begin, first, end), rising_end = std::clamp(within.end, first, end);
  const int64_t rising = rising_end - rising_begin;
  return rising * (rising_begin - within.begin) + rising * (rising - 1) / 2 +
         (end - rising_end) * (within.end - within.begin);
}

}  // namespace

KeyRange intersect(KeyRange a, KeyRange b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

AttentionMask AttentionMask::from(const ir::Attrs& attrs) {
  return {.causal = attrs.flag("causal"),
          .window = attrs.integer("window", 0),
          .sparse_block = attrs.integer("sparse_block", 0),
          .sparse_local = attrs.integer("sparse_local", 0),
          .sparse_global = attrs.integer("sparse_global", 0)};
}

bool AttentionMask::visible(int64_t query, int64_t key) const {
  if (causal && key > query) return false;
  if (window > 0 && query - key >= window) return false;
  if (sparse_block == 0) return true;
  const int64_t key_block = key / sparse_block;
  return key_block < sparse_global || std::abs(query / sparse_block - key_block) < sparse_local;
}

std::array<KeyRange, 2> AttentionMask::visible_keys(int64_t query, int64_t keys) const {
  KeyRange band{0, keys};
  if (causal) band.end = std::min(band.end, query + 1);
  if (window > 0) band.begin = std::max(band.begin, query - window + 1);
  std::array<KeyRange, 2> ranges = sparse_keys(query, keys);
  for (KeyRange& range : ranges) range = intersect(band, range);
  return ranges;
}

std::array<KeyRange, 2> AttentionMask::sparse_keys(int64_t query, int64_t keys) const {
  const KeyRange all{0, keys};
  if (sparse_block == 0) return {all, KeyRange{}};
  const int64_t block = query / sparse_block;
  const KeyRange global{0, sparse_global * sparse_block};
  const KeyRange local{std::max(global.end, (block - sparse_local + 1) * sparse_block),
                       (block + sparse_local) * sparse_block};
  return {intersect(all, global), intersect(all, local)};
}

KeyRange AttentionMask::queries_seeing(KeyRange keys, int64_t queries) const {
  KeyRange band{0, queries};
  if (causal) band.begin = keys.begin;
  if (window > 0) band.end = keys.end - 1 + window;
  band = intersect({0, queries}, band);
  if (sparse_block == 0 || keys.begin < sparse_global * sparse_block) return band;
  const PositionRange blocks = blocks_of({keys.begin, keys.end - 1}, sparse_block);
  return intersect(band, {(blocks.low - sparse_local + 1) * sparse_block, (blocks.high + sparse_local) * sparse_block});
}

Cover AttentionMask::cover(PositionRange queries, PositionRange keys) const {
  Cover cover = Cover::all;
  if (causal) cover = both(cover, cover_of(keys.high <= queries.low, keys.low > queries.high));
  if (window > 0) cover = both(cover, cover_of(queries.high - keys.low < window, queries.low - keys.high >= window));
  if (sparse_block == 0) return cover;
  const PositionRange query_blocks = blocks_of(queries, sparse_block), key_blocks = blocks_of(keys, sparse_block);
  const int64_t most_apart = std::max(query_blocks.high - key_blocks.low, key_blocks.high - query_blocks.low);
  const int64_t least_apart = std::max(query_blocks.low - key_blocks.high, key_blocks.low - query_blocks.high);
  const Cover global = cover_of(key_blocks.high < sparse_global, key_blocks.low >= sparse_global);
  const Cover local = cover_of(most_apart < sparse_local, std::max<int64_t>(0, least_apart) >= sparse_local);
  return both(cover, either(global, local));
}

// By runs of queries whose sparse blocks are the same ones: the work does not grow with the tokens of a run.
int64_t AttentionMask::visible_pairs(KeyRange queries, KeyRange keys) const {
  int64_t pairs = 0;
  for (int64_t begin = queries.begin; begin < queries.end;) {
    const int64_t end = sparse_block == 0 ? queries.end : (begin / sparse_block + 1) * sparse_block;
    const KeyRange run{begin, std::min(queries.end, end)};
    for (const KeyRange range : sparse_keys(begin, keys.end)) pairs += pairs_in(run, intersect(keys, range));
    begin = run.end;
  }
  return pairs;
}

// A query's band of keys moves with it: [query - window + 1, query + 1).
int64_t AttentionMask::pairs_in(KeyRange queries, KeyRange keys) const {
  const int64_t all = (queries.end - queries.begin) * (keys.end - keys.begin);
  const int64_t ended = causal ? sum_clamped(queries, 1, keys) : 0;  // of the band's ends, from keys.begin
  const int64_t begun = window > 0 ? sum_clamped(queries, 1 - window, keys) : 0;
  return (causal ? ended : all) - begun;
}

int64_t AttentionMask::expected_pairs(int64_t queries, int64_t keys) const {
  int64_t pairs = causal ? queries * keys / 2 : queries * keys;
  if (causal && window > 0) pairs = std::min(pairs, queries * window);
  if (sparse_block > 0) {
    const int64_t local = causal ? sparse_local : std::max<int64_t>(0, 2 * sparse_local - 1);
    pairs = std::min(pairs, queries * (sparse_global + local) * sparse_block);
  }
  return pairs;
}

}  // namespace megacpp::ops
