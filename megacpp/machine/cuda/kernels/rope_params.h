// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// x and y [positions, heads, dim], where positions are batch times sequence; cos and sin [sequence, half].
struct RopeParams {
  uint64_t x, cos, sin, y;
  uint64_t
      threads;  // vectors of all heads: those of half a head turn with their partners, those of its rest are copied
  uint32_t sequence, heads, dim, half;
  float sign;  // of sin
};

}  // namespace megacpp::runtime::cuda
