// SPDX-License-Identifier: Apache-2.0
// The frame of the experts' products on tensor cores: a persistent block of one warpgroup that loads and two that
// multiply, 64 rows of the tile each. Two blocks of a cluster work on tiles below one another: each loads half of the
// right side for both, which spares a third of the traffic with the L2 cache.
#pragma once

#include <cuda_bf16.h>

#include "megacpp/machine/cuda/kernels/hopper.cuh"

namespace megacpp::runtime::cuda {

inline constexpr int kLeftBytes = kTileRows * kTileDepth * 2;
inline constexpr int kBlockBytes = 64 * kTileDepth * 2;  // 64 rows or columns of a tile
inline constexpr int kRasterPairs = 8;  // pairs of tiles whose rows stay in the L2 cache while columns change

struct Shared {
  unsigned char* stages;   // [kStages, kStageBytes], aligned to 1024
  unsigned char* scratch;  // [kMultiplyingWarps, kScratchBytes], likewise
  uint64_t* full;          // [kStages]
  uint64_t* empty;         // [kStages]
  uint64_t* notes;         // [kStages] what the loading warp says of a stage
};

__device__ __forceinline__ Shared shared_memory(unsigned char* raw) {
  unsigned char* const stages = raw + (1024 - shared_address(raw) % 1024) % 1024;
  unsigned char* const scratch = stages + kStages * kStageBytes;
  uint64_t* const full = reinterpret_cast<uint64_t*>(scratch + kMultiplyingWarps * kScratchBytes);
  return {stages, scratch, full, full + kStages, full + 2 * kStages};
}

/// By all threads; the cluster is in step afterwards.
__device__ __forceinline__ void init_stages(const Shared& shared) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(shared.full + s, 1);
      init_barrier(shared.empty + s, kMultiplyingWarps * kClusterBlocks);
    }
    publish_barriers();
  }
  sync_cluster();
}

/// A block's shared memory, ready: what every kernel begins with.
__device__ __forceinline__ Shared begin_product() {
  extern __shared__ unsigned char raw[];
  const Shared shared = shared_memory(raw);
  init_stages(shared);
  return shared;
}

/// The ring of stages from one end: which comes next, and the parity its barriers wait for.
struct Ring {
  int stage = 0;
  uint32_t parity = 0;
  int pending = -1;  // stage of an epilogue that is not given back yet

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// A stage to fill, when both blocks are done with what it held.
struct Loading {
  unsigned char *left, *right;
  uint64_t* barrier;
};

__device__ __forceinline__ Loading begin_stage(const Shared& shared, const Ring& ring, uint64_t note,
                                               uint32_t bytes = kStageBytes) {
  wait(shared.empty + ring.stage, ring.parity ^ 1);
  shared.notes[ring.stage] = note;
  expect_bytes(shared.full + ring.stage, bytes);
  unsigned char* const stage = shared.stages + ring.stage * kStageBytes;
  return {stage, stage + kLeftBytes, shared.full + ring.stage};
}

/// By all lanes of a warp that has read the stage for the last time.
__device__ __forceinline__ void release_stage(const Shared& shared, int stage) {
  const uint32_t lane = threadIdx.x % 32;
  if (lane < kClusterBlocks) arrive_at(shared.empty + stage, lane);
}

/// Starts sum += the product of a stage.
template <bool kTransposeA, bool kTransposeB>
__device__ __forceinline__ void start_products(float (&sum)[128], const Shared& shared, int stage) {
  constexpr uint64_t kStepA = (kTransposeA ? 16 * 128 : 32) >> 4, kStepB = (kTransposeB ? 16 * 128 : 32) >> 4;
  const uint32_t half = threadIdx.x / 128 - 1;
  const uint32_t at = shared_address(shared.stages) + static_cast<uint32_t>(stage * kStageBytes);
  const uint64_t a = tile_descriptor(at + half * kBlockBytes, kBlockBytes);
  const uint64_t b = tile_descriptor(at + kLeftBytes, kBlockBytes);
  begin_products();
#pragma unroll
  for (uint64_t k = 0; k < kTileDepth / 16; ++k)
    multiply_64x256x16<kTransposeA, kTransposeB>(sum, a + k * kStepA, b + k * kStepB);
  commit_products();
}

/// sum += the product of `steps` stages. `prepare(stage)` may change what it holds before it is read.
template <bool kTransposeA, bool kTransposeB, typename Prepare>
__device__ __forceinline__ void multiply_stages(float (&sum)[128], const Shared& shared, Ring& ring, int steps,
                                                const Prepare& prepare) {
  int before = 0;
  for (int step = 0; step < steps; ++step) {
    wait(shared.full + ring.stage, ring.parity);
    prepare(ring.stage);
    start_products<kTransposeA, kTransposeB>(sum, shared, ring.stage);
    wait_products<1>();
    if (step > 0) release_stage(shared, before);
    before = ring.stage;
    ring.advance();
  }
  wait_products<0>();
  if (steps > 0) release_stage(shared, before);
}

/// The same of kPieces steps or more; piece(i) is other work that is done while the product of stage i is made.
template <bool kTransposeA, bool kTransposeB, int kPieces, typename Piece>
__device__ __forceinline__ void multiply_stages_beside(float (&sum)[128], const Shared& shared, Ring& ring, int steps,
                                                       const Piece& piece) {
  int before = 0;
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    wait(shared.full + ring.stage, ring.parity);
    start_products<kTransposeA, kTransposeB>(sum, shared, ring.stage);
    piece(i);
    wait_products<1>();
    if (i > 0) release_stage(shared, before);
    before = ring.stage;
    ring.advance();
  }
  for (int step = kPieces; step < steps; ++step) {
    wait(shared.full + ring.stage, ring.parity);
    start_products<kTransposeA, kTransposeB>(sum, shared, ring.stage);
    wait_products<1>();
    release_stage(shared, before);
    before = ring.stage;
    ring.advance();
  }
  wait_products<0>();
  release_stage(shared, before);
}

/// Pairs of tiles below one another, `pairs` x `columns`: a few of them across all columns, then the next few.
struct Place {
  int pair, column;
};

__device__ __forceinline__ Place place_of(int index, int pairs, int columns) {
  // New for every tile: reciprocals for the divisions by it would be kept in registers that sums need.
  asm volatile("" : "+r"(columns));
  const int first = index / (kRasterPairs * columns) * kRasterPairs;
  const int within = index - first * columns;
  const int height = min(kRasterPairs, pairs - first);
  return {first + within % height, within / height};
}

/// Of a warp: 16 rows of 128 bytes meet in shared memory, so that whole lines go to `store(row, piece, values)`, 16
/// bytes of a row for each lane.
template <int kPitch, typename Store>
__device__ __forceinline__ void hand_over(const unsigned char* memory, const Store& store) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int turn = 0; turn < 4; ++turn) {
    const int row = turn * 4 + lane / 8, piece = lane % 8;
    const uint4 values = *reinterpret_cast<const uint4*>(memory + row * kPitch + piece * 16);  // in one access
    store(row, piece, values);
  }
  __syncwarp();
}

__device__ __forceinline__ unsigned char* warp_scratch(const Shared& shared) {
  return shared.scratch + (threadIdx.x / 32 - 4) * kScratchBytes;
}

/// Hands the 16 x 256 sums of a warp to `store(row, column, values)`, four of a row for each lane.
template <typename Store>
__device__ __forceinline__ void store_rows(const float (&sum)[128], const Shared& shared, const Store& store) {
  constexpr int kPitch = 160;  // bytes between rows
  static_assert(kWarpRows * kPitch <= kScratchBytes);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned char* const memory = warp_scratch(shared);
#pragma unroll
  for (int chunk = 0; chunk < kTileColumns / 32; ++chunk) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* const s = sum + (chunk * 4 + j) * 4;
      unsigned char* const at = memory + (lane / 4) * kPitch + (j * 8 + lane % 4 * 2) * 4;
      *reinterpret_cast<float2*>(at) = make_float2(s[0], s[1]);
      *reinterpret_cast<float2*>(at + 8 * kPitch) = make_float2(s[2], s[3]);
    }
    hand_over<kPitch>(memory,
                      [&](int row, int piece, const uint4& values) { store(row, chunk * 32 + piece * 4, values); });
  }
}

__device__ __forceinline__ float4 widened(uint2 bits) {
  return {__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xFFFF0000u), __uint_as_float(bits.y << 16),
          __uint_as_float(bits.y & 0xFFFF0000u)};
}

/// Four f32 sums as store_rows hands them to p.result[at...], with those of p.addend where there is one: rounded once.
template <typename T, typename Params>
__device__ __forceinline__ void store_sums(const Params& p, int64_t at, const uint4& values) {
  float4 sums = {__uint_as_float(values.x), __uint_as_float(values.y), __uint_as_float(values.z),
                 __uint_as_float(values.w)};
  if (p.addend != nullptr) {
    float4 more;
    if constexpr (sizeof(T) == 4) {
      more = *reinterpret_cast<const float4*>(static_cast<const T*>(p.addend) + at);
    } else {
      more = widened(*reinterpret_cast<const uint2*>(static_cast<const T*>(p.addend) + at));
    }
    sums = {sums.x + more.x, sums.y + more.y, sums.z + more.z, sums.w + more.w};
  }
  T* const to = static_cast<T*>(p.result) + at;
  if constexpr (sizeof(T) == 4) {
    *reinterpret_cast<float4*>(to) = sums;
  } else {
    reinterpret_cast<__nv_bfloat162*>(to)[0] = __floats2bfloat162_rn(sums.x, sums.y);
    reinterpret_cast<__nv_bfloat162*>(to)[1] = __floats2bfloat162_rn(sums.z, sums.w);
  }
}

}  // namespace megacpp::runtime::cuda
