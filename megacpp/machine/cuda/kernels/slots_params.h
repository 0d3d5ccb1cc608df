// SPDX-License-Identifier: Apache-2.0
// Parameters of slots.cu, and how it cuts its work.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/float_array.h"

namespace megacpp::runtime::cuda {

inline constexpr int kSlotWarps = 32;     // of a block, which takes one chunk
inline constexpr int kSlotExperts = 256;  // counted in one pass over the choices

struct ExpertCountsParams {
  uint64_t experts;  // i32 [chunks, choices]
  uint64_t counts;   // i32 [chunks, num_experts]
  int64_t choices, num_experts;
};

struct TokenChoiceParams {
  uint64_t experts;  // i32 [chunks, choices]
  uint64_t before;   // i32 [chunks, num_experts], or 0
  uint64_t slots;    // i32 [chunks, choices]
  int64_t choices, num_experts, capacity, rows_per_expert;
};

struct ExpertChoiceParams {
  FloatArray scores;  // [sequences, tokens, experts]
  uint64_t times;     // i32 [tokens], or 0
  uint64_t chosen;    // pred [sequences, tokens, experts]
  int64_t tokens, experts;
  int64_t taken;  // at least 1
};

}  // namespace megacpp::runtime::cuda
