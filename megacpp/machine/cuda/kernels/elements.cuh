// SPDX-License-Identifier: Apache-2.0
// Elements of tensors in device code: storage types, vectors of them as f32, sums over threads in a fixed order. For
// files under kernels/ that are compiled ahead; kernels that are generated define their own (tile_helpers.cpp).
#pragma once

#include <cstdint>

namespace elements {

struct bf16 {
  uint16_t bits;
};
struct pred {
  uint8_t bits;
};

__device__ __forceinline__ uint32_t bf16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// Element k of a vector that stands in 32-bit words. `Number` is what sums are made of.
template <typename T>
struct Storage;

template <>
struct Storage<float> {
  using Number = float;
  static __device__ __forceinline__ float get(const uint32_t* words, int k) { return __uint_as_float(words[k]); }
  static __device__ __forceinline__ void put(uint32_t* words, int k, const float* x) {
    words[k] = __float_as_uint(x[k]);
  }
};

template <>
struct Storage<bf16> {
  using Number = float;
  static __device__ __forceinline__ float get(const uint32_t* words, int k) {
    return __uint_as_float(k % 2 == 0 ? words[k / 2] << 16 : words[k / 2] & 0xffff0000U);
  }
  static __device__ __forceinline__ void put(uint32_t* words, int k, const float* x) {
    if (k % 2 == 0)
      words[k / 2] = bf16_pair(x[k], 0.0F);
    else
      words[k / 2] = bf16_pair(x[k - 1], x[k]);
  }
};

template <>
struct Storage<int32_t> {
  using Number = int32_t;
  static __device__ __forceinline__ int32_t get(const uint32_t* words, int k) { return static_cast<int32_t>(words[k]); }
  static __device__ __forceinline__ void put(uint32_t* words, int k, const int32_t* x) {
    words[k] = static_cast<uint32_t>(x[k]);
  }
};

template <>
struct Storage<pred> {
  using Number = int32_t;
  static __device__ __forceinline__ int32_t get(const uint32_t* words, int k) {
    return (words[k / 4] >> (k % 4 * 8) & 255U) != 0U ? 1 : 0;
  }
  static __device__ __forceinline__ void put(uint32_t* words, int k, const int32_t* x) {
    const uint32_t bit = x[k] != 0 ? 1U << (k % 4 * 8) : 0U;
    words[k / 4] = k % 4 == 0 ? bit : words[k / 4] | bit;
  }
};

// Of an accelerator's access: at most sixteen bytes each.
template <int kBytes>
__device__ __forceinline__ void read_words(const void* from, uint32_t* words) {
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 four = static_cast<const uint4*>(from)[i];
      words[4 * i] = four.x;
      words[4 * i + 1] = four.y;
      words[4 * i + 2] = four.z;
      words[4 * i + 3] = four.w;
    }
  } else if constexpr (kBytes == 8) {
    const uint2 two = *static_cast<const uint2*>(from);
    words[0] = two.x;
    words[1] = two.y;
  } else if constexpr (kBytes == 4) {
    words[0] = *static_cast<const uint32_t*>(from);
  } else if constexpr (kBytes == 2) {
    words[0] = *static_cast<const uint16_t*>(from);
  } else {
    words[0] = *static_cast<const uint8_t*>(from);
  }
}

template <int kBytes>
__device__ __forceinline__ void write_words(void* to, const uint32_t* words) {
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      static_cast<uint4*>(to)[i] = uint4{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  } else if constexpr (kBytes == 8) {
    *static_cast<uint2*>(to) = uint2{words[0], words[1]};
  } else if constexpr (kBytes == 4) {
    *static_cast<uint32_t*>(to) = words[0];
  } else if constexpr (kBytes == 2) {
    *static_cast<uint16_t*>(to) = static_cast<uint16_t>(words[0]);
  } else {
    *static_cast<uint8_t*>(to) = static_cast<uint8_t>(words[0]);
  }
}

/// N neighbours, as aligned as they are long up to sixteen bytes.
template <int N, typename T>
__device__ __forceinline__ void load(const T* from, typename Storage<T>::Number* to) {
  constexpr int kBytes = N * static_cast<int>(sizeof(T));
  uint32_t words[kBytes < 4 ? 1 : kBytes / 4];
  read_words<kBytes>(from, words);
#pragma unroll
  for (int k = 0; k < N; ++k) to[k] = Storage<T>::get(words, k);
}

template <int N, typename T>
__device__ __forceinline__ void store(T* to, const typename Storage<T>::Number* from) {
  constexpr int kBytes = N * static_cast<int>(sizeof(T));
  uint32_t words[kBytes < 4 ? 1 : kBytes / 4];
#pragma unroll
  for (int k = 0; k < N; ++k) Storage<T>::put(words, k, from);
  write_words<kBytes>(to, words);
}

template <typename T>
__device__ __forceinline__ typename Storage<T>::Number load_one(const T* from) {
  typename Storage<T>::Number one;
  load<1>(from, &one);
  return one;
}

template <typename T>
__device__ __forceinline__ void store_one(T* to, typename Storage<T>::Number one) {
  store<1>(to, &one);
}

struct Quotient {
  uint64_t whole;
  uint32_t rest;
};

/// Of an index by a size; most indices fit 32 bits, whose division is several times faster.
__device__ __forceinline__ Quotient divided(uint64_t index, uint32_t by) {
  if (index >> 32 == 0) {
    const uint32_t small = static_cast<uint32_t>(index), whole = small / by;
    return {whole, small - whole * by};
  }
  const uint64_t whole = index / by;
  return {whole, static_cast<uint32_t>(index - whole * by)};
}

/// The sum over each run of `lanes` threads, a power of two, in the same order every time; all threads of the block
/// take part and get it. `shared`: a float for each warp of the block.
__device__ __forceinline__ float sum_of_lanes(float x, int lanes, float* shared) {
  for (int apart = (lanes < 32 ? lanes : 32) / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(~0U, x, apart);
  if (lanes <= 32) return x;
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = lanes / 32;
  if (threadIdx.x % 32 == 0) shared[warp] = x;
  __syncthreads();
  float sum = 0.0F;
  for (int w = warp / warps * warps; w < (warp / warps + 1) * warps; ++w) sum += shared[w];
  __syncthreads();  // before the next call writes
  return sum;
}

}  // namespace elements
