// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient from primitives, a block of queries at a time: scores [b,K,s,g,t] exist for one block and
// the keys it may see, never for the whole sequence squared.
// In comments: b batch, s queries, t keys, K key heads, g query heads a key head, H = K g, d head dimension.
#pragma once

#include <vector>

#include "megacpp/program/ops/attention_mask.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

struct AttentionDims {
  int64_t b, s, t, heads, kv_heads, group, d;

  AttentionDims(const ir::TensorType& q, const ir::TensorType& k)
      : b(q.dim(0)),
        s(q.dim(1)),
        t(k.dim(1)),
        heads(q.dim(2)),
        kv_heads(k.dim(2)),
        group(heads / kv_heads),
        d(q.dim(3)) {}

  int64_t q_at(int64_t batch, int64_t i, int64_t head) const { return ((batch * s + i) * heads + head) * d; }
  int64_t k_at(int64_t batch, int64_t j, int64_t head) const { return ((batch * t + j) * kv_heads + head / group) * d; }
  int64_t lse_at(int64_t batch, int64_t i, int64_t head) const { return (batch * heads + head) * s + i; }
};

/// Blocks of a sequence: a quarter of it, within these sizes. Many small blocks skip more of what a mask hides (four
/// skip three quarters of it); few large ones make fewer, better products and a shorter program.
inline constexpr int64_t kQueryBlocks = 4, kSmallestQueryBlock = 128, kLargestQueryBlock = 512;

/// Queries [first, first + size) and the keys any of them may see, by position alone.
struct QueryBlock {
  int64_t first, size;
  KeyRange keys;
};
/// All queries in order. `placed` queries may see any key.
std::vector<QueryBlock> query_blocks(const AttentionDims& z, const AttentionMask& mask, bool placed);

/// What the block with the most scores holds beside operands and results of `attention`; of `attention_grad`, with the
/// sums of dk and dv. Rules: a compiler decides what it keeps.
Types attention_temporaries(const NodeView& view);
Types attention_grad_temporaries(const NodeView& view);

/// Scores that all blocks of queries have together, those that the mask hides too.
int64_t scores_of_all_blocks(const NodeView& view);

/// q, k, v and what describes tokens (attention_mask.h) -> out, lse
std::vector<ValueId> decompose_attention(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs);
/// q, k, v, out, lse, dout and what describes tokens -> dq, dk, dv
std::vector<ValueId> decompose_attention_grad(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs);

}  // namespace megacpp::ops
