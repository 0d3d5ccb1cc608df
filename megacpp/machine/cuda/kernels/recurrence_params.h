// SPDX-License-Identifier: Apache-2.0
// Parameters of recurrence.cu, and how it cuts its work.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/float_array.h"

namespace megacpp::runtime::cuda {

inline constexpr int kRecurrenceWarps = 8;  // of a block; each takes the next few steps of all its channels

struct RecurrenceSizes {
  int64_t batch, seq, channels;  // before, along and after the dimension it runs along
};

struct LinearRecurrenceParams {
  FloatArray a, x, h;  // [batch, seq, channels]
  RecurrenceSizes sizes;
  int64_t reverse;  // 1: from the end
};

/// Where a state begins anew: at positions [batch, seq] of 0, or else at the first step of every sequence that does not
/// continue another one by `continues` [batch]. Absent operands have address 0.
struct Resets {
  uint64_t positions;  // i32
  FloatArray continues;
};

struct RgLruParams {
  FloatArray x, input_gate, recurrence_gate;  // [batch, seq, channels]
  FloatArray p;                               // [channels]
  FloatArray h;                               // [batch, seq, channels]
  RecurrenceSizes sizes;
  Resets resets;
};

struct RgLruGradParams {
  RgLruParams forward;
  FloatArray dh, dx, dinput_gate, drecurrence_gate;  // [batch, seq, channels]
  uint64_t partial_dp;                               // f32 [batch, channels]
};

struct RgLruRateParams {
  uint64_t partial_dp;  // f32 [batch, channels]
  FloatArray p, dp;     // [channels]
  int64_t batch, channels;
};

}  // namespace megacpp::runtime::cuda
