// SPDX-License-Identifier: Apache-2.0
// Elements of tensors as device code reads and writes them: f32 or bf16 in memory, f32 in registers. V elements move in
// as few accesses as they fit, so an index must be a multiple of V; tensors begin at 256 bytes.
#pragma once

#include <cstdint>

#include "megacpp/machine/cuda/kernels/float_array.h"
#include "megacpp/machine/cuda/kernels/instructions.cuh"

namespace megacpp::runtime::cuda {

/// What a kernel knows of its tensors when it is compiled; `any` asks each of them.
enum class Storage { f32, bf16, any };

__device__ inline float from_bf16(uint32_t bits) { return __uint_as_float(bits << 16); }
/// Of a pair, as they stand in a register.
__device__ inline float low_of(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_of(uint32_t pair) { return __uint_as_float(pair & 0xffff0000U); }

template <int V>
__device__ void load_f32(const float* from, float (&to)[V]) {
  if constexpr (V % 4 == 0) {
    for (int j = 0; j < V / 4; ++j) {
      const float4 four = reinterpret_cast<const float4*>(from)[j];
      to[4 * j] = four.x, to[4 * j + 1] = four.y, to[4 * j + 2] = four.z, to[4 * j + 3] = four.w;
    }
  } else if constexpr (V == 2) {
    const float2 two = *reinterpret_cast<const float2*>(from);
    to[0] = two.x, to[1] = two.y;
  } else {
    for (int j = 0; j < V; ++j) to[j] = from[j];
  }
}

template <int V>
__device__ void load_bf16(const uint16_t* from, float (&to)[V]) {
  if constexpr (V % 8 == 0) {
    for (int j = 0; j < V / 8; ++j) {
      const uint4 eight = reinterpret_cast<const uint4*>(from)[j];
      to[8 * j] = low_of(eight.x), to[8 * j + 1] = high_of(eight.x);
      to[8 * j + 2] = low_of(eight.y), to[8 * j + 3] = high_of(eight.y);
      to[8 * j + 4] = low_of(eight.z), to[8 * j + 5] = high_of(eight.z);
      to[8 * j + 6] = low_of(eight.w), to[8 * j + 7] = high_of(eight.w);
    }
  } else if constexpr (V == 4) {
    const uint2 four = *reinterpret_cast<const uint2*>(from);
    to[0] = low_of(four.x), to[1] = high_of(four.x), to[2] = low_of(four.y), to[3] = high_of(four.y);
  } else if constexpr (V == 2) {
    const uint32_t two = *reinterpret_cast<const uint32_t*>(from);
    to[0] = low_of(two), to[1] = high_of(two);
  } else {
    for (int j = 0; j < V; ++j) to[j] = from_bf16(from[j]);
  }
}

template <int V>
__device__ void store_f32(const float (&from)[V], float* to) {
  if constexpr (V % 4 == 0) {
    for (int j = 0; j < V / 4; ++j)
      reinterpret_cast<float4*>(to)[j] = make_float4(from[4 * j], from[4 * j + 1], from[4 * j + 2], from[4 * j + 3]);
  } else if constexpr (V == 2) {
    *reinterpret_cast<float2*>(to) = make_float2(from[0], from[1]);
  } else {
    for (int j = 0; j < V; ++j) to[j] = from[j];
  }
}

template <int V>
__device__ void store_bf16(const float (&from)[V], uint16_t* to) {
  if constexpr (V % 8 == 0) {
    for (int j = 0; j < V / 8; ++j)
      reinterpret_cast<uint4*>(to)[j] =
          make_uint4(to_bf16_pair(from[8 * j], from[8 * j + 1]), to_bf16_pair(from[8 * j + 2], from[8 * j + 3]),
                     to_bf16_pair(from[8 * j + 4], from[8 * j + 5]), to_bf16_pair(from[8 * j + 6], from[8 * j + 7]));
  } else if constexpr (V == 4) {
    *reinterpret_cast<uint2*>(to) = make_uint2(to_bf16_pair(from[0], from[1]), to_bf16_pair(from[2], from[3]));
  } else if constexpr (V == 2) {
    *reinterpret_cast<uint32_t*>(to) = to_bf16_pair(from[0], from[1]);
  } else {
    for (int j = 0; j < V; ++j) to[j] = to_bf16(from[j]);
  }
}

template <Storage S>
__device__ bool is_bf16(const FloatArray& array) {
  return S == Storage::bf16 || (S == Storage::any && array.is_bf16 != 0);
}

template <Storage S, int V>
__device__ void load(const FloatArray& array, int64_t index, float (&to)[V]) {
  if (is_bf16<S>(array)) {
    load_bf16(reinterpret_cast<const uint16_t*>(array.address) + index, to);
  } else {
    load_f32(reinterpret_cast<const float*>(array.address) + index, to);
  }
}

template <Storage S, int V>
__device__ void store(const float (&from)[V], const FloatArray& array, int64_t index) {
  if (is_bf16<S>(array)) {
    store_bf16(from, reinterpret_cast<uint16_t*>(array.address) + index);
  } else {
    store_f32(from, reinterpret_cast<float*>(array.address) + index);
  }
}

/// V neighbours that wait in registers: as they stand in memory where that is known, which halves those of bf16.
template <Storage S, int V>
struct Waiting {
  static constexpr bool kIsPacked = S == Storage::bf16;
  uint32_t words[kIsPacked ? (V + 1) / 2 : V];

  __device__ void read(const FloatArray& array, int64_t index) {
    if constexpr (!kIsPacked) {
      float values[V];
      load<S>(array, index, values);
      for (int v = 0; v < V; ++v) words[v] = __float_as_uint(values[v]);
    } else if constexpr (V % 8 == 0) {
      for (int j = 0; j < V / 8; ++j) {
        const uint4 eight = reinterpret_cast<const uint4*>(reinterpret_cast<const uint16_t*>(array.address) + index)[j];
        words[4 * j] = eight.x, words[4 * j + 1] = eight.y, words[4 * j + 2] = eight.z, words[4 * j + 3] = eight.w;
      }
    } else if constexpr (V == 4) {
      const uint2 four = *reinterpret_cast<const uint2*>(reinterpret_cast<const uint16_t*>(array.address) + index);
      words[0] = four.x, words[1] = four.y;
    } else if constexpr (V == 2) {
      words[0] = *reinterpret_cast<const uint32_t*>(reinterpret_cast<const uint16_t*>(array.address) + index);
    } else {
      static_assert(V == 1);
      words[0] = reinterpret_cast<const uint16_t*>(array.address)[index];
    }
  }
  __device__ void clear() {
    for (uint32_t& word : words) word = 0;
  }
  __device__ float operator[](int v) const {
    if constexpr (!kIsPacked) return __uint_as_float(words[v]);
    return v % 2 == 0 ? low_of(words[v / 2]) : high_of(words[v / 2]);
  }
};

__device__ inline float load_one(const FloatArray& array, int64_t index) {
  float value[1];
  load<Storage::any>(array, index, value);
  return value[0];
}

__device__ inline void store_one(float value, const FloatArray& array, int64_t index) {
  const float values[1] = {value};
  store<Storage::any>(values, array, index);
}

/// The sum of a warp's values, in every lane.
__device__ inline float warp_sum(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
  return value;
}

}  // namespace megacpp::runtime::cuda
