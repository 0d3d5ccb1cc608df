// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/attention_decompose.h"

#include <algorithm>
#include <optional>

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::TensorType;

// For each position the first one of its block, by long division: it has no op, and f32 holds each step exactly.
ValueId block_start(Builder& b, ValueId positions, int64_t block) {
  constexpr int64_t kPositions = int64_t{1} << 24;
  const ValueId none = b.constant_like(0, positions);
  ValueId rest = positions;
  int64_t step = block;
  while (step < kPositions) step *= 2;
  for (; step >= block; step /= 2) {
    const ValueId taken = b.constant_like(static_cast<double>(step), positions);
    rest = b.sub(rest, b.select(b.compare(rest, taken, "ge"), taken, none));
  }
  return b.sub(positions, rest);
}

// f32[s,t]: one where the query at query_positions[i] may see the key at key_positions[j].
ValueId mask_of_positions(Builder& b, const AttentionMask& mask, ValueId query_positions, ValueId key_positions) {
  const ir::Shape shape = {b.type(query_positions).dim(0), b.type(key_positions).dim(0)};
  const ValueId none = b.constant(0, shape);
  const auto number = [&](int64_t value) { return b.constant(static_cast<double>(value), shape, DType::i32); };
  // Keeps what has been seen where the comparison holds.
  const auto where = [&](ValueId seen, ValueId left, std::string_view direction, int64_t right) {
    return b.select(b.compare(left, number(right), direction), seen, none);
  };
  const auto difference = [&](ValueId of_queries, ValueId of_keys) {
    const ValueId left = b.broadcast(of_queries, shape, {0});
    return b.sub(left, b.broadcast(of_keys, shape, {1}));
  };
  ValueId seen = b.constant(1, shape);
  if (mask.causal || mask.window > 0) {
    const ValueId distance = difference(query_positions, key_positions);
    if (mask.causal) seen = where(seen, distance, "ge", 0);
    if (mask.window > 0) seen = where(seen, distance, "lt", mask.window);
  }
  if (mask.sparse_block > 0) {
    const int64_t reach = mask.sparse_local * mask.sparse_block;
    const ValueId query_start = block_start(b, query_positions, mask.sparse_block);
    const ValueId apart = difference(query_start, block_start(b, key_positions, mask.sparse_block));
    const ValueId local = where(where(seen, apart, "lt", reach), apart, "gt", -reach);
    const ValueId key = b.broadcast(key_positions, shape, {1});
    seen = b.max(where(seen, key, "lt", mask.sparse_global * mask.sparse_block), local);
  }
  return seen;
}

// Part of a tensor along one dimension; nothing when it is all of it.
ValueId part(Builder& b, ValueId a, int64_t dim, int64_t begin, int64_t size) {
  return b.type(a).dim(dim) == size ? a : b.slice(a, dim, begin, size);
}

struct Scores {
  ValueId visible;                    // pred[b,K,s,g,t]
  ValueId masked;                     // f32[b,K,s,g,t]: scaled scores, kHiddenScore where not visible
  std::optional<ValueId> slope = {};  // of the soft cap at each score, where there is one
};

std::vector<QueryBlock> query_blocks_of(const AttentionDims& z, const NodeView& view) {
  return query_blocks(z, AttentionMask::from(view.attrs), view.attrs.flag("placed"));
}

// Of the block with the most scores, as products leave them: the queries of a key head are rows.
struct LargestBlock {
  AttentionDims z;
  DType dtype;
  int64_t rows = 0, keys = 0;

  explicit LargestBlock(const NodeView& view) : z(view.operands[0], view.operands[1]), dtype(view.operands[0].dtype) {
    for (const QueryBlock& block : query_blocks_of(z, view))
      if (block.size * z.group * block.keys.size() > rows * keys) rows = block.size * z.group, keys = block.keys.size();
  }

  TensorType scores_in(DType type) const { return {type, {z.b, z.kv_heads, rows, keys}}; }
  TensorType query_rows() const { return {DType::f32, {z.b, z.kv_heads, rows, z.d}}; }
  TensorType key_sums() const { return {DType::f32, {z.b, z.kv_heads, z.t, z.d}}; }
};

// What all blocks read, and what one block of queries and its keys are.
class Blocks {
 public:
  Blocks(Builder& b, const std::vector<ValueId>& operands, size_t token_operands, const ir::Attrs& attrs)
      : b_(b),
        operands_(operands),
        tokens_(TokenOperands::behind(token_operands, attrs)),
        mask_(AttentionMask::from(attrs)),
        scale_(attrs.real("scale")),
        softcap_(attrs.real("softcap", 0)),
        z_(b.type(operands[0]), b.type(operands[1])),
        query_positions_(tokens_.placed ? operands[tokens_.query_positions()] : b.iota({z_.s}, 0)),
        key_positions_(tokens_.placed ? operands[tokens_.key_positions()] : query_positions_) {}

  const AttentionDims& dims() const { return z_; }
  std::vector<QueryBlock> all() const { return query_blocks(z_, mask_, tokens_.placed); }

  /// Queries [b,s,H,d], or what has their shape -> [b,s,K,g,d] of a block
  ValueId queries(const QueryBlock& block, ValueId rows) const {
    return b_.reshape(part(b_, rows, 1, block.first, block.size), {z_.b, block.size, z_.kv_heads, z_.group, z_.d});
  }
  /// Keys or values [b,t,K,d] -> those that the block sees
  ValueId keys(const QueryBlock& block, ValueId rows) const {
    return part(b_, rows, 1, block.keys.begin, block.keys.size());
  }
  /// lse [b,H,s] -> [b,K,s,g] of a block
  ValueId per_query(const QueryBlock& block, ValueId lse) const {
    const ValueId own = part(b_, lse, 2, block.first, block.size);
    return b_.transpose(b_.reshape(own, {z_.b, z_.kv_heads, z_.group, block.size}), {0, 1, 3, 2});
  }

  Scores scores(const QueryBlock& block) const {
    const int64_t keys_begin = block.keys.begin, keys_size = block.keys.end - keys_begin;
    const ValueId query_positions = part(b_, query_positions_, 0, block.first, block.size);
    const ValueId key_positions = part(b_, key_positions_, 0, keys_begin, keys_size);
    const ValueId mask = mask_of_positions(b_, mask_, query_positions, key_positions);
    const ir::Shape pairs = {z_.b, block.size, keys_size};
    ValueId seen = b_.broadcast(mask, pairs, {1, 2});
    if (tokens_.documents) {
      const ValueId of_queries = part(b_, operands_[tokens_.query_segments()], 1, block.first, block.size);
      const ValueId of_keys = part(b_, operands_[tokens_.key_segments()], 1, keys_begin, keys_size);
      const ValueId left = b_.broadcast(of_queries, pairs, {0, 1});
      const ValueId same = b_.compare(left, b_.broadcast(of_keys, pairs, {0, 2}), "eq");
      seen = b_.select(same, seen, b_.constant_like(0, seen));
    }
    const ValueId q = queries(block, operands_[0]);
    const ValueId products = b_.wide_dot(q, keys(block, operands_[1]), {{4}, {3}, {0, 2}, {0, 2}});
    const ValueId spread = b_.broadcast(seen, b_.shape(products), {0, 2, 4});
    const ValueId visible = b_.compare(spread, b_.constant_like(0, spread), "gt");
    const ValueId hidden = b_.constant_like(kHiddenScore, products);
    if (softcap_ == 0) return {visible, b_.select(visible, b_.scale(products, scale_), hidden)};
    const ValueId bent = b_.tanh(b_.scale(products, scale_ / softcap_));
    const ValueId slope = b_.offset(b_.neg(b_.square(bent)), 1.0);
    return {visible, b_.select(visible, b_.scale(bent, softcap_), hidden), slope};
  }

  /// Scores of the sinks of a block's queries, shaped as one score of each: [b,K,s,g]
  std::optional<ValueId> sinks(const QueryBlock& block) const {
    if (!tokens_.sinks) return std::nullopt;
    const ValueId by_group = b_.reshape(operands_[tokens_.sink_scores()], {z_.kv_heads, z_.group});
    return b_.broadcast(by_group, {z_.b, z_.kv_heads, block.size, z_.group}, {1, 3});
  }

  /// exp(scores - shift[b,K,s,g]), zero where not visible.
  ValueId weights(const Scores& scores, ValueId shift) const {
    const ValueId shifted = b_.sub(scores.masked, b_.broadcast(shift, b_.shape(scores.masked), {0, 1, 2, 3}));
    const ValueId weights = b_.exp(shifted);
    const ValueId none = b_.constant_like(0, shifted);
    return b_.select(scores.visible, weights, none);
  }

  /// [b,K,s,g,d] -> [b,s,H,d], of the queries' type
  ValueId to_heads(ValueId a) const {
    const ValueId rows = b_.transpose(a, {0, 2, 1, 3, 4});
    return b_.convert(b_.reshape(rows, {z_.b, b_.type(rows).dim(1), z_.heads, z_.d}), dtype());
  }

  /// Weights take part in products as the queries do.
  DType dtype() const { return b_.type(operands_[0]).dtype; }

 private:
  Builder& b_;
  const std::vector<ValueId>& operands_;
  TokenOperands tokens_;
  AttentionMask mask_;
  double scale_, softcap_;
  AttentionDims z_;
  ValueId query_positions_, key_positions_;
};

ValueId join(Builder& b, const std::vector<ValueId>& parts, int64_t dim) {
  return parts.size() == 1 ? parts[0] : b.concatenate(parts, dim);
}

// Gradients of keys or values, gathered block by block in f32: [b,K,t,d].
class KeySums {
 public:
  KeySums(Builder& b, int64_t keys) : b_(b), keys_(keys) {}

  void add(const QueryBlock& block, ValueId rows) {
    const int64_t after = keys_ - block.keys.end;
    const bool is_all = block.keys.begin == 0 && after == 0;
    const ValueId whole = is_all ? rows : b_.pad(rows, 2, block.keys.begin, after);
    sum_ = is_empty_ ? whole : b_.add(sum_, whole);
    is_empty_ = false;
  }

  /// [b,t,K,d]
  ValueId rows(DType dtype) const { return b_.convert(b_.transpose(sum_, {0, 2, 1, 3}), dtype); }

 private:
  Builder& b_;
  int64_t keys_;
  ValueId sum_;
  bool is_empty_ = true;
};

}  // namespace

std::vector<QueryBlock> query_blocks(const AttentionDims& z, const AttentionMask& mask, bool placed) {
  const int64_t length = std::clamp(z.s / kQueryBlocks, kSmallestQueryBlock, kLargestQueryBlock);
  std::vector<QueryBlock> blocks;
  for (int64_t first = 0; first < z.s; first += length) {
    QueryBlock block{first, std::min(length, z.s - first), {0, z.t}};
    if (!placed) {
      block.keys = {z.t, 0};
      for (int64_t query = first; query < first + block.size; ++query)
        for (const KeyRange& range : mask.visible_keys(query, z.t)) {
          if (range.begin >= range.end) continue;
          block.keys = {std::min(block.keys.begin, range.begin), std::max(block.keys.end, range.end)};
        }
      // One key, though nobody sees it: softmax needs a maximum.
      if (block.keys.begin >= block.keys.end) block.keys = {0, 1};
      block.keys.begin -= block.keys.begin % kSmallestQueryBlock;
    }
    blocks.push_back(block);
  }
  return blocks;
}

// Scores in f32 and the weights that products read; rows before they are divided.
Types attention_temporaries(const NodeView& view) {
  const LargestBlock block(view);
  return {block.scores_in(DType::f32), block.scores_in(block.dtype), block.query_rows()};
}

// Scores and their gradient, in f32 and as products read them; dq of the block; dk and dv, so far and of the block.
Types attention_grad_temporaries(const NodeView& view) {
  const LargestBlock block(view);
  const TensorType wide = block.scores_in(DType::f32), narrow = block.scores_in(block.dtype), sums = block.key_sums();
  return {wide, wide, narrow, narrow, block.query_rows(), sums, sums, sums, sums};
}

int64_t scores_of_all_blocks(const NodeView& view) {
  const AttentionDims z(view.operands[0], view.operands[1]);
  int64_t scores = 0;
  for (const QueryBlock& block : query_blocks_of(z, view)) scores += z.b * z.heads * block.size * block.keys.size();
  return scores;
}

std::vector<ValueId> decompose_attention(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  const Blocks blocks(b, operands, kAttentionOperands, attrs);
  const AttentionDims& z = blocks.dims();
  std::vector<ValueId> outs, lses;
  for (const QueryBlock& block : blocks.all()) {
    const Scores scores = blocks.scores(block);
    const std::optional<ValueId> sinks = blocks.sinks(block);
    ValueId highest = b.reduce_max(scores.masked, {4});  // [b,K,s,g]
    if (sinks) highest = b.max(highest, *sinks);
    const ValueId p = blocks.weights(scores, highest);
    ValueId total = b.reduce_sum(p, {4});
    if (sinks) total = b.add(total, b.exp(b.sub(*sinks, highest)));
    // The highest score alone contributes one, so this changes nothing but rows that see nothing.
    const ValueId sum = b.max(total, b.constant_like(1, total));
    const ValueId weights = b.convert(p, blocks.dtype());
    const ValueId mixed =  // [b,K,s,g,d]
        b.wide_dot(weights, blocks.keys(block, operands[2]), {{4}, {1}, {0, 1}, {0, 2}});
    outs.push_back(blocks.to_heads(b.div(mixed, b.broadcast(sum, b.shape(mixed), {0, 1, 2, 3}))));
    const ValueId lse = b.transpose(b.add(highest, b.log(sum)), {0, 1, 3, 2});
    lses.push_back(b.reshape(lse, {z.b, z.heads, block.size}));
  }
  const ValueId out = join(b, outs, 1);
  return {out, join(b, lses, 2)};
}

std::vector<ValueId> decompose_attention_grad(Builder& b, const std::vector<ValueId>& operands,
                                              const ir::Attrs& attrs) {
  const Blocks blocks(b, operands, kAttentionGradOperands, attrs);
  const DType dtype = blocks.dtype();
  const ValueId wide_dout = b.convert(operands[5], DType::f32);
  const ValueId products = b.mul(wide_dout, b.convert(operands[3], DType::f32));
  const ValueId deltas = b.transpose(b.reduce_sum(products, {3}), {0, 2, 1});  // [b,H,s]
  std::vector<ValueId> dqs;
  KeySums dk(b, blocks.dims().t), dv(b, blocks.dims().t);
  for (const QueryBlock& block : blocks.all()) {
    const Scores scores = blocks.scores(block);
    const ValueId p = blocks.weights(scores, blocks.per_query(block, operands[4]));
    const ValueId dout = blocks.queries(block, operands[5]);
    const ValueId dp = b.wide_dot(dout, blocks.keys(block, operands[2]), {{4}, {3}, {0, 2}, {0, 2}});
    const ValueId delta = blocks.per_query(block, deltas);
    const ValueId centred = b.sub(dp, b.broadcast(delta, b.shape(dp), {0, 1, 2, 3}));
    ValueId of_scores = b.mul(p, centred);
    if (scores.slope) of_scores = b.mul(of_scores, *scores.slope);
    const ValueId ds = b.convert(b.scale(of_scores, attrs.real("scale")), dtype);
    const auto to_keys = [&](ValueId weights, ValueId rows) {  // [b,K,s,g,t], [b,s,K,g,d] -> [b,K,t,d]
      return b.wide_dot(weights, rows, {{2, 3}, {1, 3}, {0, 1}, {0, 2}});
    };
    dqs.push_back(blocks.to_heads(b.wide_dot(ds, blocks.keys(block, operands[1]), {{4}, {1}, {0, 1}, {0, 2}})));
    dk.add(block, to_keys(ds, blocks.queries(block, operands[0])));
    dv.add(block, to_keys(b.convert(p, dtype), dout));
  }
  const ValueId dq = join(b, dqs, 1);
  const ValueId dks = dk.rows(dtype);
  return {dq, dks, dv.rows(dtype)};
}

}  // namespace megacpp::ops
