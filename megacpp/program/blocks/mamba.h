// SPDX-License-Identifier: Apache-2.0
// M: Mamba-2 (state space duality, chunked): in-projections to z, x, B, C and dt, causal depthwise convs over x, B and
// C, the scan, a gated RMSNorm and the out-projection. z, x and dt go by heads, B and C by groups: parameters of their
// own, so that each can be split along them.
#pragma once

#include <cstdint>
#include <limits>

namespace megacpp::blocks {

struct Mamba {
  int64_t heads = 0;
  int64_t head_dim = 64;
  int64_t state = 64;
  int64_t groups = 1;
  int64_t conv_width = 4;
  int64_t chunk = 64;  // tokens
  double dt_min = 1e-3;
  double dt_max = 0.1;
  double dt_floor = 1e-4;
  double dt_limit_low = 0;
  double dt_limit_high = std::numeric_limits<double>::infinity();
  bool norm_per_group = true;
  bool conv_bias = true;
  bool document_mask = false;

  int64_t inner() const { return heads * head_dim; }
  bool operator==(const Mamba&) const = default;
};

}  // namespace megacpp::blocks
