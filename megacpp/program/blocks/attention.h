// SPDX-License-Identifier: Apache-2.0
// A: causal grouped-query attention with RoPE, optional QK-norm, sliding window, block-sparse and document masks.
#pragma once

#include <cstdint>

namespace megacpp::blocks {

struct Attention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  double rope_theta = 10000;
  bool rope = true;
  bool qk_norm = false;
  int64_t window = 0;         // tokens a query sees, itself included; 0 = all before it
  int64_t sparse_block = 0;   // tokens per block of the block-sparse mask; 0 = dense
  int64_t sparse_local = 0;   // blocks
  int64_t sparse_global = 0;  // blocks
  bool document_mask = false;

  bool operator==(const Attention&) const = default;
};

}  // namespace megacpp::blocks
