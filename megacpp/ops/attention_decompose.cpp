// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/attention_decompose.h"

#include "megacpp/ops/attention_mask.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::TensorType;

// Block index of each of `size` positions, spread along `dim` of [s,t].
ValueId block_index(Builder& b, const ir::Shape& shape, int64_t dim, int64_t block) {
  const int64_t size = shape[static_cast<size_t>(dim)];
  const int64_t blocks = (size + block - 1) / block;
  const ValueId index = b.reshape(b.iota({blocks, block}, 0), {blocks * block});
  return b.broadcast(b.slice(index, 0, 0, size), shape, {dim});
}

// f32[s,t]: one where query i may see key j.
ValueId mask_of_positions(Builder& b, const AttentionMask& mask, const ir::Shape& shape) {
  const ValueId none = b.constant(0, shape);
  const auto number = [&](int64_t value) { return b.constant(static_cast<double>(value), shape, DType::i32); };
  ValueId seen = b.constant(1, shape);
  const ValueId query = b.iota(shape, 0);
  const ValueId key = b.iota(shape, 1);
  const ValueId distance = b.sub(query, key);
  if (mask.causal) seen = b.select(b.compare(distance, number(0), "ge"), seen, none);
  if (mask.window > 0) seen = b.select(b.compare(distance, number(mask.window), "lt"), seen, none);
  if (mask.sparse_block > 0) {
    const ValueId key_block = block_index(b, shape, 1, mask.sparse_block);
    const ValueId apart = b.sub(block_index(b, shape, 0, mask.sparse_block), key_block);
    const ValueId global = b.select(b.compare(key_block, number(mask.sparse_global), "lt"), seen, none);
    const ValueId near = b.select(b.compare(apart, number(mask.sparse_local), "lt"), seen, none);
    const ValueId local = b.select(b.compare(apart, number(-mask.sparse_local), "gt"), near, none);
    seen = b.max(global, local);
  }
  return seen;
}

struct Scores {
  ValueId visible;  // pred[b,K,s,g,t]
  ValueId masked;   // f32[b,K,s,g,t]: scaled scores, kHiddenScore where not visible
  ValueId q;        // f32[b,s,K,g,d]
  ValueId k;        // f32[b,t,K,d]
};

Scores scores_of(Builder& b, ValueId q, ValueId k, const ValueId* segments, const ir::Attrs& attrs) {
  const AttentionDims z(b.type(q), b.type(k));
  ValueId seen = b.broadcast(mask_of_positions(b, AttentionMask::from(attrs), {z.s, z.t}), {z.b, z.s, z.t}, {1, 2});
  if (segments != nullptr) {
    const ValueId query_segment = b.broadcast(*segments, {z.b, z.s, z.t}, {0, 1});
    const ValueId key_segment = b.broadcast(*segments, {z.b, z.s, z.t}, {0, 2});
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
  const Scores scores = scores_of(b, operands[0], operands[1], operands.size() == 4 ? &operands[3] : nullptr, attrs);
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
  const Scores scores = scores_of(b, operands[0], operands[1], operands.size() == 7 ? &operands[6] : nullptr, attrs);
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
