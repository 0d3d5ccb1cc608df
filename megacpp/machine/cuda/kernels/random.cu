// SPDX-License-Identifier: Apache-2.0
// The numbers of base::Philox, computed in double and rounded once as there. A thread draws the four numbers of a
// counter.
#include "megacpp/machine/cuda/kernels/random_params.h"

using namespace megacpp::runtime::cuda;

namespace {

struct Words {
  uint32_t word[4];
};

__device__ __forceinline__ Words words_of(const RandomParams& p, uint64_t index) {
  const uint32_t step = static_cast<uint32_t>(*reinterpret_cast<const int32_t*>(p.step));
  Words c{{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), step, 0}};
  uint32_t key0 = p.key0, key1 = p.key1;
  for (int round = 0; round < p.rounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(p.multiplier0) * c.word[0];
    const uint64_t p1 = static_cast<uint64_t>(p.multiplier1) * c.word[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.word[1] ^ key0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.word[3] ^ key1, static_cast<uint32_t>(p0)}};
    key0 += p.weyl0;
    key1 += p.weyl1;
  }
  return c;
}

__device__ __forceinline__ double unit(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

__device__ __forceinline__ void uniforms(const Words& c, float* drawn) {
  for (int k = 0; k < 4; ++k) drawn[k] = fminf(static_cast<float>(unit(c.word[k])), 1 - 0x1p-24F);
}

__device__ __forceinline__ void normals(const Words& c, float* drawn) {
  for (int pair = 0; pair < 4; pair += 2) {
    const double radius = sqrt(-2.0 * log(unit(c.word[pair])));
    double sine, cosine;
    sincospi(2.0 * unit(c.word[pair + 1]), &sine, &cosine);
    drawn[pair] = static_cast<float>(radius * cosine);
    drawn[pair + 1] = static_cast<float>(radius * sine);
  }
}

template <typename Draw>
__device__ __forceinline__ void draw_four(const RandomParams& p, const Draw& draw) {
  const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (thread * 4 >= p.count) return;
  float drawn[4];
  draw(words_of(p, thread), drawn);
  float* to = reinterpret_cast<float*>(p.to) + thread * 4;
  if (thread * 4 + 4 <= p.count) {
    *reinterpret_cast<float4*>(to) = float4{drawn[0], drawn[1], drawn[2], drawn[3]};
    return;
  }
  for (int k = 0; k < 4; ++k)
    if (thread * 4 + k < p.count) to[k] = drawn[k];
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) random_uniform(const __grid_constant__ RandomParams p) {
  draw_four(p, [](const Words& c, float* drawn) { uniforms(c, drawn); });
}
extern "C" __global__ void __launch_bounds__(256) random_normal(const __grid_constant__ RandomParams p) {
  draw_four(p, [](const Words& c, float* drawn) { normals(c, drawn); });
}
