// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient on Hopper's tensor cores, for plans that use them.
#pragma once

#include "megacpp/machine/cuda/kernels/attention_plan.h"
#include "megacpp/machine/cuda/tensor_map.h"

namespace megacpp::runtime::cuda {

Prepared prepare_attention_wgmma(const AttentionPlan& plan, Toolbox& toolbox);

/// Workspace behind the ranges of token blocks: statistics of queries, sums of dq in f32, and counters.
int64_t attention_grad_wgmma_bytes(const AttentionPlan& plan);
Prepared prepare_attention_grad_wgmma(const AttentionPlan& plan, Toolbox& toolbox);

/// Key tiles of one row that run at one time in the backward kernel: more of them share the sums of dq in L2, but each
/// waits for those before it when they begin.
inline constexpr int64_t kGradTilesTogether = 8;
/// Of rows [b, K], how many the backward kernel goes through at one time.
int32_t grad_rows_together(const AttentionShape& shape, int64_t multiprocessors);

/// bf16 [batch, tokens, heads, dim], copied by tiles of `tile` tokens of one head: rows of 64 columns, in pieces where
/// there are more.
struct HeadTensor {
  Address address;
  int64_t batch, tokens, heads, dim, tile;
};
TiledTensor tiled_heads(const HeadTensor& tensor);

}  // namespace megacpp::runtime::cuda
