// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient for XLA as one loop over the pairs of blocks of queries and keys that a mask leaves
// (attention_block_table.h), with an online softmax: scores exist for one pair, sums are f32, and the text is as long
// for any number of tokens. The pairs are made where the program runs, from the positions of the blocks: of tokens in
// order their number is known when it is written, of placed ones (a chip's part of a split sequence) each chip counts
// its own.
#pragma once

#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

/// The attribute `block` is the number of queries and keys of a block; without it kAttentionBlock.
int64_t attention_block(const ir::Attrs& attrs);

/// Operands and results as of `attention`.
HloResults write_blocked_attention(HloWriter& w, const HloArgs& args);
/// As of `attention_grad`; weights are computed again from lse.
HloResults write_blocked_attention_grad(HloWriter& w, const HloArgs& args);

}  // namespace megacpp::ops
