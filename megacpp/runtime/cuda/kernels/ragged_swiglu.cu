// SPDX-License-Identifier: Apache-2.0
// SwiGLU of experts in the epilogues of the products around it. Forward a tile of 256 columns is 128 of gate and the same 128 of
// up, so that a thread has both of an element among its sums. Backward the gradient of h never leaves the registers;
// gate and up are read a chunk ahead of what is made of them.

#include "megacpp/runtime/cuda/kernels/ragged_swiglu_params.h"
#include "megacpp/runtime/cuda/kernels/ragged_tiles.cuh"
#include "megacpp/runtime/cuda/kernels/swiglu.cuh"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kGateColumns = kTileColumns / 2;
constexpr int kChunk = 64;  // columns that go out together
constexpr int kChunks = kTileColumns / kChunk;
static_assert(kClusterBlocks == 2, "one block of a cluster loads gate's matrices, the other up's");

// ---- Forward ----

__device__ __forceinline__ void load_tile(const SwigluParams& p, const Shared& shared, Ring& ring, const Place& place) {
  const int rank = static_cast<int>(rank_in_cluster()), column = place.column * kGateColumns;
  const int expert = expert_of(p.lists, p.experts, place.pair * kPairSegments);
  const TileRows rows = listed_rows(p.lists, place);
  for (int k = 0; k < p.k; k += kTileDepth) {
    const Loading to = begin_stage(shared, ring, 0);
    load_left(p, to, rows, k);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      copy_tile_to_all({&p.w[rank], to.barrier, to.right + (rank * 2 + i) * kBlockBytes}, column + i * 64, k, expert);
    ring.advance();
  }
}

__device__ __forceinline__ SumPairs swiglu_pairs(const SumPairs& gate, const SumPairs& up) {
  SumPairs h;
#pragma unroll
  for (int i = 0; i < 16; ++i)
    h.words[i] = bf16_pair(swiglu(first_of(gate.words[i]), first_of(up.words[i])),
                           swiglu(second_of(gate.words[i]), second_of(up.words[i])));
  return h;
}

__device__ __forceinline__ void multiply_tile(const SwigluParams& p, const Shared& shared, Ring& ring,
                                              const Place& place) {
  const WarpRows rows = listed_warp_rows(p.lists, place);
  float sum[128];
#pragma unroll
  for (float& s : sum) s = 0;
  multiply_stages<false, true>(sum, shared, ring, (p.k + kTileDepth - 1) / kTileDepth, [](int) {});
#pragma unroll
  for (int chunk = 0; chunk < kGateColumns / kChunk; ++chunk) {
    const auto store = [&](const SumPairs& pairs, void* to) {
      store_pairs(pairs, shared, [&](int row, int column, const uint4& values) {
        if (!rows.has(row)) return;
        const int64_t at = rows.index(row) * p.n + place.column * kGateColumns + chunk * kChunk + column;
        *reinterpret_cast<uint4*>(static_cast<__nv_bfloat16*>(to) + at) = values;
      });
    };
    const SumPairs gate = rounded_sums(sum, chunk), up = rounded_sums(sum, chunk + kGateColumns / kChunk);
    if (p.gate != nullptr) {
      store(gate, p.gate);
      store(up, p.up);
    }
    store(swiglu_pairs(gate, up), p.h);
  }
}

// ---- Backward ----

__device__ __forceinline__ void load_tile(const SwigluGradParams& p, const Shared& shared, Ring& ring,
                                          const Place& place) {
  const int rank = static_cast<int>(rank_in_cluster()), column = place.column * kTileColumns + rank * 128;
  const int expert = expert_of(p.lists, p.experts, place.pair * kPairSegments);
  const TileRows rows = listed_rows(p.lists, place);
  for (int k = 0; k < p.k; k += kTileDepth) {
    const Loading to = begin_stage(shared, ring, 0);
    load_left(p, to, rows, k);
    copy_tile_to_all({&p.w, to.barrier, to.right + rank * 2 * kBlockBytes}, k, column, expert);
    ring.advance();
  }
}

// Where the lane's piece of a row of a chunk stands, in pieces of eight; below 0: nowhere.
struct Pieces {
  const WarpRows& rows;
  int column;  // of this lane's piece of chunk 0
  int n;

  __device__ __forceinline__ int at(int row, int chunk) const {
    const int here = column + chunk * (kChunk / 8);
    return rows.has(row) && here < n ? (rows.first + row) * n + here : -1;
  }
};

// Gate and up of the pieces that hand_over gives this lane in one turn.
struct Gates {
  uint4 gate, up;

  // Plain loads: dgate may take gate's place, piece by piece, each behind the load of the same lane.
  __device__ __forceinline__ void load(const SwigluGradParams& p, int at) {
    gate = up = make_uint4(0, 0, 0, 0);
    if (at < 0) return;
    gate = static_cast<const uint4*>(p.gate)[at];
    up = static_cast<const uint4*>(p.up)[at];
  }
};

struct GradPiece {
  uint4 dgate, dup, h;
};

__device__ __forceinline__ void make_grads(uint32_t gate, uint32_t up, uint32_t dh, uint32_t& dgate, uint32_t& dup,
                                           uint32_t& h) {
  const SwigluGrad first = swiglu_grad(first_of(gate), first_of(up), first_of(dh));
  const SwigluGrad second = swiglu_grad(second_of(gate), second_of(up), second_of(dh));
  dgate = bf16_pair(first.gate, second.gate);
  dup = bf16_pair(first.up, second.up);
  h = bf16_pair(first.h, second.h);
}

__device__ __forceinline__ GradPiece make_grads(const uint4& gate, const uint4& up, const uint4& dh) {
  GradPiece made;
  make_grads(gate.x, up.x, dh.x, made.dgate.x, made.dup.x, made.h.x);
  make_grads(gate.y, up.y, dh.y, made.dgate.y, made.dup.y, made.h.y);
  make_grads(gate.z, up.z, dh.z, made.dgate.z, made.dup.z, made.h.z);
  make_grads(gate.w, up.w, dh.w, made.dgate.w, made.dup.w, made.h.w);
  return made;
}

template <bool kMakesH>
__device__ __forceinline__ void multiply_tile(const SwigluGradParams& p, const Shared& shared, Ring& ring,
                                              const Place& place) {
  const WarpRows rows = listed_warp_rows(p.lists, place);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Pieces pieces = {rows, place.column * (kTileColumns / 8) + lane % 8, p.n / 8};
  Gates gates[4];  // by turn
#pragma unroll
  for (int turn = 0; turn < 4; ++turn) gates[turn].load(p, pieces.at(turn * 4 + lane / 8, 0));
  float sum[128];
#pragma unroll
  for (float& s : sum) s = 0;
  multiply_stages<false, false>(sum, shared, ring, (p.k + kTileDepth - 1) / kTileDepth, [](int) {});
#pragma unroll
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    put_pairs(rounded_sums(sum, chunk), way_out(shared));
    hand_over<kPairsPitch>(way_out(shared), [&](int turn, int row, int, const uint4& dh) {
      const Gates here = gates[turn];
      if (chunk + 1 < kChunks) gates[turn].load(p, pieces.at(row, chunk + 1));
      const int at = pieces.at(row, chunk);
      if (at < 0) return;
      const GradPiece made = make_grads(here.gate, here.up, dh);
      static_cast<uint4*>(p.dgate)[at] = made.dgate;
      static_cast<uint4*>(p.dup)[at] = made.dup;
      if constexpr (kMakesH) static_cast<uint4*>(p.h)[at] = made.h;
    });
  }
}

// ---- Whole kernels ----

__device__ __forceinline__ void run_swiglu(const SwigluParams& p) {
  const Shared shared = begin_product();
  if (threadIdx.x == 0) {
    prefetch_map(&p.a);
    prefetch_map(&p.w[rank_in_cluster()]);
  }
  walk_tiles(
      Walk{p.lists.first[p.experts] / kPairSegments, p.n / kGateColumns},
      [&](const Place& place, Ring& ring) { load_tile(p, shared, ring, place); },
      [&](const Place& place, Ring& ring) { multiply_tile(p, shared, ring, place); });
}

template <bool kMakesH>
__device__ __forceinline__ void run_swiglu_grad(const SwigluGradParams& p) {
  const Shared shared = begin_product();
  if (threadIdx.x == 0) {
    prefetch_map(&p.a);
    prefetch_map(&p.w);
  }
  walk_tiles(
      Walk{p.lists.first[p.experts] / kPairSegments, (p.n + kTileColumns - 1) / kTileColumns},
      [&](const Place& place, Ring& ring) { load_tile(p, shared, ring, place); },
      [&](const Place& place, Ring& ring) { multiply_tile<kMakesH>(p, shared, ring, place); });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kProductThreads, 1)
    ragged_swiglu(const __grid_constant__ SwigluParams p) {
  run_swiglu(p);
}

extern "C" __global__ void __launch_bounds__(kProductThreads, 1)
    ragged_swiglu_grad(const __grid_constant__ SwigluGradParams p) {
  run_swiglu_grad<false>(p);
}

extern "C" __global__ void __launch_bounds__(kProductThreads, 1)
    ragged_swiglu_grad_h(const __grid_constant__ SwigluGradParams p) {
  run_swiglu_grad<true>(p);
}

}  // namespace megacpp::runtime::cuda
