// SPDX-License-Identifier: Apache-2.0
// A: causal grouped-query attention with RoPE (see rope.h), optional QK-norm, biases, soft cap and sinks, sliding
// window, block-sparse and document masks.
#pragma once

#include <array>
#include <cstdint>

#include "megacpp/core/base/words.h"
#include "megacpp/program/blocks/rope_scaling.h"

namespace megacpp::blocks {

/// What qk_norm takes the mean square of.
enum class NormOver : uint8_t { head, heads };
constexpr auto words_of(NormOver) {
  return std::to_array<base::Word<NormOver>>({{NormOver::head, "head", "each head by itself"},
                                              {NormOver::heads, "heads", "all heads of the queries, and of the keys"}});
}

struct Attention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  double scale = 0;    // of scores; 0 = 1 / sqrt(head_dim)
  double softcap = 0;  // scores become softcap tanh(score / softcap); 0 = off
  double rope_theta = 10000;
  bool rope = true;
  int64_t rotary_dim = 0;  // first channels of a head that turn, an odd one with the next; 0 = all
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1;
  int64_t rope_original_length = 0;  // tokens
  double rope_slow_turns = 1;
  double rope_fast_turns = 0;       // 0 = that of the type
  bool rope_whole_channels = true;  // of yarn
  double rope_amplitude = 0;        // of yarn; 0 = that of the factor
  bool qk_norm = false;
  NormOver qk_norm_over = NormOver::head;
  bool qkv_bias = false;
  bool out_bias = false;
  bool sinks = false;
  int64_t window = 0;         // tokens a query sees, itself included; 0 = all before it
  int64_t sparse_block = 0;   // tokens per block of the block-sparse mask; 0 = dense
  int64_t sparse_local = 0;   // blocks
  int64_t sparse_global = 0;  // blocks
  bool document_mask = false;

  /// Channels of a head that wavelengths are spread over, and pairs of them that turn.
  int64_t turned() const { return rotary_dim == 0 ? head_dim : rotary_dim; }
  int64_t turned_pairs() const { return (turned() + 1) / 2; }
  bool operator==(const Attention&) const = default;
};

}  // namespace megacpp::blocks
