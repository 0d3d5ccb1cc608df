// SPDX-License-Identifier: Apache-2.0
// The machine instructions that C++ has no word for, one function each.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// Nearest bf16, ties to even.
__device__ inline uint16_t to_bf16(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/// Two of them in memory order: `low` stands first.
__device__ inline uint32_t to_bf16_pair(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// 2^x
__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace megacpp::runtime::cuda
