// SPDX-License-Identifier: Apache-2.0
// Scores as integers, so that whatever ranks them has a total order: -0 equals +0, and NaN has a place too.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// Higher scores have higher ranks.
__device__ inline uint32_t score_rank(float score) {
  const uint32_t bits = __float_as_uint(score + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace megacpp::runtime::cuda
