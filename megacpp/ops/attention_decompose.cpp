// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/attention_decompose.h"

#include "megacpp/ops/attention_mask.h"

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
  const ValueId distance = difference(query_positions, key_positions);
  if (mask.causal) seen = where(seen, distance, "ge", 0);
  if (mask.window > 0) seen = where(seen, distance, "lt", mask.window);
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

struct Scores {
  ValueId visible;  // pred[b,K,s,g,t]
  ValueId masked;   // f32[b,K,s,g,t]: scaled scores, kHiddenScore where not visible
  ValueId q;        // f32[b,s,K,g,d]
  ValueId k;        // f32[b,t,K,d]
};

Scores scores_of(Builder& b, const std::vector<ValueId>& operands, const TokenOperands& tokens,
                 const ir::Attrs& attrs) {
  const ValueId q = operands[0], k = operands[1];
  const AttentionDims z(b.type(q), b.type(k));
  const ValueId query_positions = tokens.placed ? operands[tokens.query_positions()] : b.iota({z.s}, 0);
  const ValueId key_positions = tokens.placed ? operands[tokens.key_positions()] : query_positions;
  const ValueId mask = mask_of_positions(b, AttentionMask::from(attrs), query_positions, key_positions);
  ValueId seen = b.broadcast(mask, {z.b, z.s, z.t}, {1, 2});
  if (tokens.documents) {
    const ValueId query_segment = b.broadcast(operands[tokens.query_segments()], {z.b, z.s, z.t}, {0, 1});
    const ValueId key_segment = b.broadcast(operands[tokens.key_segments()], {z.b, z.s, z.t}, {0, 2});
    const ValueId same = b.compare(query_segment, key_segment, "eq");
    seen = b.select(same, seen, b.constant_like(0, seen));
  }
  Scores scores;
  scores.q = b.reshape(b.convert(q, DType::f32), z.grouped());
  scores.k = b.convert(k, DType::f32);
  const ValueId products = b.dot(scores.q, scores.k, {{4}, {3}, {0, 2}, {0, 2}});
  const ValueId spread = b.broadcast(seen, z.scores(), {0, 2, 4});
  scores.visible = b.compare(spread, b.constant_like(0, spread), "gt");
  const ValueId hidden = b.constant_like(kHiddenScore, products);
  scores.masked = b.select(scores.visible, b.scale(products, attrs.real("scale")), hidden);
  return scores;
}

// [b,K,s,g,d] -> [b,s,H,d] of the type of `like`
ValueId to_heads(Builder& b, ValueId a, ValueId like) {
  const TensorType type = b.type(like);
  return b.convert(b.reshape(b.transpose(a, {0, 2, 1, 3, 4}), type.shape), type.dtype);
}

// exp(scores - shift[b,K,s,g]), zero where not visible.
ValueId weights_of(Builder& b, const Scores& scores, ValueId shift) {
  const ValueId shifted = b.sub(scores.masked, b.broadcast(shift, b.shape(scores.masked), {0, 1, 2, 3}));
  const ValueId weights = b.exp(shifted);
  const ValueId none = b.constant_like(0, shifted);
  return b.select(scores.visible, weights, none);
}

}  // namespace

std::vector<ValueId> decompose_attention(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  const Scores scores = scores_of(b, operands, TokenOperands::behind(kAttentionOperands, attrs), attrs);
  const ValueId highest = b.reduce_max(scores.masked, {4});  // [b,K,s,g]
  const ValueId p = weights_of(b, scores, highest);
  // The highest score alone contributes one, so this changes nothing but rows that see nothing.
  const ValueId total = b.reduce_sum(p, {4});
  const ValueId sum = b.max(total, b.constant_like(1, total));
  const ValueId mixed = b.dot(p, b.convert(operands[2], DType::f32), {{4}, {1}, {0, 1}, {0, 2}});  // [b,K,s,g,d]
  const ValueId out = b.div(mixed, b.broadcast(sum, b.shape(mixed), {0, 1, 2, 3}));
  const ValueId lse = b.transpose(b.add(highest, b.log(sum)), {0, 1, 3, 2});
  const TensorType q = b.type(operands[0]);
  return {to_heads(b, out, operands[0]), b.reshape(lse, {q.dim(0), q.dim(2), q.dim(1)})};
}

std::vector<ValueId> decompose_attention_grad(Builder& b, const std::vector<ValueId>& operands,
                                              const ir::Attrs& attrs) {
  const Scores scores = scores_of(b, operands, TokenOperands::behind(kAttentionGradOperands, attrs), attrs);
  const AttentionDims z(b.type(operands[0]), b.type(operands[1]));
  const ValueId lse = b.transpose(b.reshape(operands[4], {z.b, z.kv_heads, z.group, z.s}), {0, 1, 3, 2});
  const ValueId p = weights_of(b, scores, lse);
  const ValueId dout = b.reshape(b.convert(operands[5], DType::f32), z.grouped());
  const ValueId out = b.reshape(b.convert(operands[3], DType::f32), z.grouped());
  const ValueId delta = b.transpose(b.reduce_sum(b.mul(dout, out), {4}), {0, 2, 1, 3});  // [b,K,s,g]
  const ValueId dp = b.dot(dout, b.convert(operands[2], DType::f32), {{4}, {3}, {0, 2}, {0, 2}});
  const ValueId centred = b.sub(dp, b.broadcast(delta, z.scores(), {0, 1, 2, 3}));
  const ValueId ds = b.scale(b.mul(p, centred), attrs.real("scale"));
  const auto to_keys = [&](ValueId weights, ValueId rows) {  // [b,K,s,g,t], [b,s,K,g,d] -> [b,t,K,d]
    const ValueId sums = b.dot(weights, rows, {{2, 3}, {1, 3}, {0, 1}, {0, 2}});
    return b.convert(b.transpose(sums, {0, 2, 1, 3}), b.type(operands[1]).dtype);
  };
  const ValueId dq = b.dot(ds, scores.k, {{4}, {1}, {0, 1}, {0, 2}});  // [b,K,s,g,d]
  return {to_heads(b, dq, operands[0]), to_keys(ds, scores.q), to_keys(p, dout)};
}

}  // namespace megacpp::ops
