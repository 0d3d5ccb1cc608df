// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/attention_mask.h"

#include <algorithm>
#include <cstdlib>

namespace megacpp::ops {
namespace {

KeyRange intersect(KeyRange a, KeyRange b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace

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
  if (sparse_block == 0) return {intersect(band, {0, keys}), KeyRange{}};
  const int64_t block = query / sparse_block;
  const KeyRange global{0, sparse_global * sparse_block};
  const KeyRange local{std::max(global.end, (block - sparse_local + 1) * sparse_block),
                       (block + sparse_local) * sparse_block};
  return {intersect(band, global), intersect(band, local)};
}

int64_t AttentionMask::visible_pairs(int64_t queries, int64_t keys) const {
  int64_t pairs = 0;
  for (int64_t query = 0; query < queries; ++query)
    for (const KeyRange range : visible_keys(query, keys)) pairs += range.end - range.begin;
  return pairs;
}

}  // namespace megacpp::ops
