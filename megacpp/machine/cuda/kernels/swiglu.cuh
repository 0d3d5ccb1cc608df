// SPDX-License-Identifier: Apache-2.0
// silu(gate) * up and its gradients in f32: op by op as a generated cluster of the same ops computes them
// (tile_source.cpp), so that a program has the same bits with either.
#pragma once

#include <cstdint>

namespace megacpp::runtime::cuda {

/// What __fdividef(1.0f, 1.0f + ..) is, without its care for divisors below 2^-126.
__device__ __forceinline__ float logistic(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + expf(-x)));
  return result;
}

__device__ __forceinline__ float swiglu(float gate, float up) { return gate * logistic(gate) * up; }

struct SwigluGrad {
  float gate, up;
  float h;
};

__device__ __forceinline__ SwigluGrad swiglu_grad(float gate, float up, float dh) {
  const float s = logistic(gate), silu = gate * s;
  const float dsilu = dh * up;
  const float slope = dsilu * gate * s;
  return {.gate = dsilu * s + (slope - slope * s), .up = dh * silu, .h = silu * up};
}

}  // namespace megacpp::runtime::cuda
