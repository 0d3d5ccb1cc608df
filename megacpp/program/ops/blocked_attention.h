// SPDX-License-Identifier: Apache-2.0
// Where attention is a loop over blocks for compilers (ops blocked_attention and blocked_attention_grad) instead of the
// unrolled blocks of queries of attention_decompose.h.
#pragma once

#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

/// Up to so many keys the unrolled form is kept: it has no rescaling between blocks of keys and larger products, the
/// scores of its blocks are at most 512 x 4096, 8 MiB a head, and 8 blocks of text. Beyond, both grow with the
/// sequence.
inline constexpr int64_t kLongestUnrolled = 4096;

/// Whether a node of attention or of its gradient is a loop: with more keys than that, or where the unrolled blocks,
/// which take all keys between the first and the last that a block sees, compute at least a third more than the loop
/// (global blocks, tokens of a split sequence). Never with fewer queries than a block has: decoding.
bool becomes_loop(const NodeView& view);

}  // namespace megacpp::ops
