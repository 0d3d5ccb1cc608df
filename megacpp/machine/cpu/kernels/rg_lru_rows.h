// SPDX-License-Identifier: Apache-2.0
// One position of rg_lru for a row of channels, forward and backward, each in one pass: the gates' three exponentials
// run side by side in registers, which is several times faster than a pass per function. Channels are independent.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cpu {

/// All rows [n]. `previous` is h of the position before; null where the state is reset.
struct RgLruForwardRow {
  const float* x;
  const float* input_gate;
  const float* recurrence_gate;
  const float* scale;  // 8 softplus(p)
  const float* previous;
  float* h;
};
void rg_lru_forward_row(const RgLruForwardRow& row, int64_t n);

struct RgLruBackwardRow {
  const float* x;
  const float* input_gate;
  const float* recurrence_gate;
  const float* scale;
  const float* previous;
  const float* dh;
  float* carry;  // in: what h gets from the position after; out: what it gives to the position before
  float* sum;    // grows by the cotangent of `scale`
  float* dx;
  float* dinput_gate;
  float* drecurrence_gate;
};
void rg_lru_backward_row(const RgLruBackwardRow& row, int64_t n);

}  // namespace megacpp::runtime::cpu
