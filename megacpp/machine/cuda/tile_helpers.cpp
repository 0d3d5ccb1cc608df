// SPDX-License-Identifier: Apache-2.0
// Text that all generated kernels share.
#include "megacpp/machine/cuda/tile_source.h"

namespace megacpp::runtime::cuda {

std::string tile_device_macros() {
  return R"(#define EACH_THREAD
#define BARRIER __syncthreads();
#define WARP_BARRIER __syncwarp();
__device__ __forceinline__ float reciprocal(float x) { return __fdividef(1.0f, x); }
__device__ __forceinline__ unsigned bf16_pair(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
)";
}

std::string tile_helpers() {
  return R"(struct f32 {
  static constexpr int bytes = 4;
  static __device__ __forceinline__ float get(const unsigned* words, int k) { return __uint_as_float(words[k]); }
  static __device__ __forceinline__ void put(unsigned* words, int k, const float* x) {
    words[k] = __float_as_uint(x[k]);
  }
};
struct i32 {
  static constexpr int bytes = 4;
  static __device__ __forceinline__ float get(const unsigned* words, int k) { return (float)(int)words[k]; }
  static __device__ __forceinline__ void put(unsigned* words, int k, const float* x) { words[k] = (unsigned)(int)x[k]; }
};
struct bf16 {
  static constexpr int bytes = 2;
  static __device__ __forceinline__ float get(const unsigned* words, int k) {
    return __uint_as_float(k % 2 == 0 ? words[k / 2] << 16 : words[k / 2] & 0xffff0000u);
  }
  static __device__ __forceinline__ void put(unsigned* words, int k, const float* x) {
    if (k % 2 == 0) words[k / 2] = bf16_pair(x[k], 0.0f);
    if (k % 2 == 1) words[k / 2] = bf16_pair(x[k - 1], x[k]);
  }
};
struct pred {
  static constexpr int bytes = 1;
  static __device__ __forceinline__ float get(const unsigned* words, int k) {
    return (words[k / 4] >> (k % 4 * 8) & 255u) != 0u ? 1.0f : 0.0f;
  }
  static __device__ __forceinline__ void put(unsigned* words, int k, const float* x) {
    const unsigned bit = x[k] != 0.0f ? 1u << (k % 4 * 8) : 0u;
    words[k / 4] = k % 4 == 0 ? bit : words[k / 4] | bit;
  }
};
template <typename T, int N>
__device__ __forceinline__ void load(const char* base, unsigned long long at, float* to) {
  constexpr int kBytes = N * T::bytes;
  const char* from = base + at * T::bytes;
  unsigned words[kBytes < 4 ? 1 : kBytes / 4];
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 four = ((const uint4*)from)[i];
      words[4 * i] = four.x;
      words[4 * i + 1] = four.y;
      words[4 * i + 2] = four.z;
      words[4 * i + 3] = four.w;
    }
  } else if constexpr (kBytes == 8) {
    const uint2 two = *(const uint2*)from;
    words[0] = two.x;
    words[1] = two.y;
  } else if constexpr (kBytes == 4) {
    words[0] = *(const unsigned*)from;
  } else if constexpr (kBytes == 2) {
    words[0] = *(const unsigned short*)from;
  } else {
    words[0] = *(const unsigned char*)from;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) to[k] = T::get(words, k);
}
template <typename T, int N>
__device__ __forceinline__ void store(char* base, unsigned long long at, const float* from) {
  constexpr int kBytes = N * T::bytes;
  char* to = base + at * T::bytes;
  unsigned words[kBytes < 4 ? 1 : kBytes / 4];
#pragma unroll
  for (int k = 0; k < N; ++k) T::put(words, k, from);
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      ((uint4*)to)[i] = uint4{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  } else if constexpr (kBytes == 8) {
    *(uint2*)to = uint2{words[0], words[1]};
  } else if constexpr (kBytes == 4) {
    *(unsigned*)to = words[0];
  } else if constexpr (kBytes == 2) {
    *(unsigned short*)to = (unsigned short)words[0];
  } else {
    *(unsigned char*)to = (unsigned char)words[0];
  }
}
template <typename T>
__device__ __forceinline__ float load_one(const char* base, unsigned long long at) {
  float one;
  load<T, 1>(base, at, &one);
  return one;
}
template <typename T>
__device__ __forceinline__ void store_one(char* base, unsigned long long at, float one) {
  store<T, 1>(base, at, &one);
}
)";
}

}  // namespace megacpp::runtime::cuda
