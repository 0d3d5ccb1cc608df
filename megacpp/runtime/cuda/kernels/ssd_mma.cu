// SPDX-License-Identifier: Apache-2.0
// ssd by tensor cores. Sequences are cut into chunks of kSsdChunk positions: inside a chunk all pairs of positions
// meet, between chunks a state is carried, S [head_dim, state], in f32 registers. A block walks kHeads heads of one
// group through their whole sequence, so B and C are read once for them and the states never leave the chip. Four warps
// take a head: 16 positions each of what is written, 16 rows each of the state.
#include "megacpp/runtime/cuda/kernels/ssd_walk.cuh"

namespace megacpp::runtime::cuda {
namespace {

// ---- Forward

template <int kHeads>
struct ForwardShared {
  uint16_t b[2][kSsdChunk * kSsdState], c[2][kSsdChunk * kSsdState];
  uint16_t x[2][kHeads][kSsdChunk * kSsdHeadDim];
  uint16_t y[kHeads][kSsdChunk * kSsdHeadDim];
  uint16_t state[kHeads][kSsdHeadDim * kSsdState];  // at the chunk's start
  Decays decays[2][kHeads];
};
static_assert(sizeof(ForwardShared<1>) == ssd_forward_shared_bytes(1));
static_assert(sizeof(ForwardShared<2>) == ssd_forward_shared_bytes(2));

// One warp's 16 positions of y, from `row`.
struct ForwardTiles {
  SharedTile<kSsdState> b, c, state;
  SharedTile<kSsdHeadDim> x;
  const Decays& decays;
};

using Positions = float[kSsdHeadDim / 8][4];

// y = C S, with the decay from the chunk's start.
__device__ void read_state(const ForwardTiles& t, int row, const uint32_t (&c)[kSsdState / 16][4], Positions& y) {
#pragma unroll
  for (int k = 0; k < kSsdState / 16; ++k)
#pragma unroll
    for (int n = 0; n < kSsdHeadDim / 16; ++n) {
      uint32_t b[4];
      load_right(t.state, n * 16, k * 16, b);
      multiply_add_pair(y[2 * n], y[2 * n + 1], c[k], b);
    }
  const float above = t.decays.from_start[row + fragment_row()], below = t.decays.from_start[row + fragment_row() + 8];
#pragma unroll
  for (int n = 0; n < kSsdHeadDim / 8; ++n) y[n][0] *= above, y[n][1] *= above, y[n][2] *= below, y[n][3] *= below;
}

// y += (C B^T * decay * dt) x, 16 positions that are read at a time.
__device__ void read_chunk(const ForwardTiles& t, int row, const uint32_t (&c)[kSsdState / 16][4], Positions& y) {
#pragma unroll 1
  for (int from = 0; from <= row; from += 16) {
    float scores[2][4] = {};
#pragma unroll
    for (int k = 0; k < kSsdState / 16; ++k) {
      uint32_t b[4];
      load_right(t.b, from, k * 16, b);
      multiply_add_pair(scores[0], scores[1], c[k], b);
    }
    const int i = row + fragment_row(), j = from + fragment_column();
    const auto mixed = [&](int n, int e) {
      const int at = j + n * 8 + e % 2;
      return scores[n][e] * t.decays.between(i + e / 2 * 8, at) * t.decays.dt[at];
    };
    const uint32_t mixing[4] = {to_bf16_pair(mixed(0, 0), mixed(0, 1)), to_bf16_pair(mixed(0, 2), mixed(0, 3)),
                                to_bf16_pair(mixed(1, 0), mixed(1, 1)), to_bf16_pair(mixed(1, 2), mixed(1, 3))};
#pragma unroll
    for (int n = 0; n < kSsdHeadDim / 16; ++n) {
      uint32_t x[4];
      load_right_transposed(t.x, n * 16, from, x);
      multiply_add_pair(y[2 * n], y[2 * n + 1], mixing, x);
    }
  }
}

template <int kHeads>
__device__ void start_forward_copies(const SsdParams& p, const HeadBlock& at, int64_t chunk, ForwardShared<kHeads>& s) {
  constexpr int kThreads = kHeads * kSsdHeadWarps * 32;
  const int buffer = static_cast<int>(chunk % 2), thread = static_cast<int>(threadIdx.x);
  start_copying(group_rows(p.sizes, p.b, at.batch, at.group, chunk), SharedTile<kSsdState>{s.b[buffer]}, thread,
                kThreads);
  start_copying(group_rows(p.sizes, p.c, at.batch, at.group, chunk), SharedTile<kSsdState>{s.c[buffer]}, thread,
                kThreads);
  for (int h = 0; h < kHeads; ++h)
    start_copying(head_rows(p.sizes, p.x, {at.batch, at.head + h, chunk}), SharedTile<kSsdHeadDim>{s.x[buffer][h]},
                  thread, kThreads);
}

// Of every other head the warps take their rows in the opposite order: later positions read more, and a processor's
// quarter has the warps of the same place.
__device__ int row_of_warp(int warp) {
  const int place = warp % kSsdHeadWarps;
  return (warp / kSsdHeadWarps % 2 == 0 ? place : kSsdHeadWarps - 1 - place) * 16;
}

template <int kHeads>
__device__ void forward(const SsdParams& p) {
  extern __shared__ char shared[];
  ForwardShared<kHeads>& s = *reinterpret_cast<ForwardShared<kHeads>*>(shared);
  const HeadBlock at = head_block<kHeads>(p.sizes, blockIdx.x);
  const int warp = static_cast<int>(threadIdx.x) / 32, h = warp / kSsdHeadWarps, row = row_of_warp(warp);
  const int64_t chunks = chunks_of(p.sizes);
  const SharedTile<kSsdState> state_tile = {s.state[h]};
  const SharedTile<kSsdHeadDim> y_tile = {s.y[h]};
  StateRows state = {};
  start_forward_copies(p, at, 0, s);
  if (row == 0) fill_decays(p, {at.batch, at.head + h, 0}, s.decays[0][h]);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int buffer = static_cast<int>(chunk % 2);
    const bool has_next = chunk + 1 < chunks;
    wait_for_copies();
    __syncthreads();  // this chunk is there; nobody reads the one before any more
    if (has_next) start_forward_copies(p, at, chunk + 1, s);
    const ForwardTiles tiles = {{s.b[buffer]}, {s.c[buffer]}, state_tile, {s.x[buffer][h]}, s.decays[buffer][h]};
    {
      uint32_t c[kSsdState / 16][4];
      Positions y = {};
#pragma unroll
      for (int k = 0; k < kSsdState / 16; ++k) load_left(tiles.c, row, k * 16, c[k]);
      if (chunk > 0) read_state(tiles, row, c, y);
      read_chunk(tiles, row, c, y);
      store_sums(y, y_tile, row, 0);
    }
    __syncwarp();
    write_rows<kSsdHeadDim / 8>(y_tile, row, 0, head_rows(p.sizes, p.y, {at.batch, at.head + h, chunk}));
    if (!has_next) break;
    if (row == 0) fill_decays(p, {at.batch, at.head + h, chunk + 1}, s.decays[1 - buffer][h]);
    advance_state(state, row, tiles.decays.whole(), tiles.decays.added, tiles.x, tiles.b);
    __syncthreads();  // the state was read
    store_sums(state, state_tile, row, 0);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kSsdHeadWarps * 32, 2) ssd_forward_1(const __grid_constant__ SsdParams p) {
  forward<1>(p);
}

extern "C" __global__ void __launch_bounds__(2 * kSsdHeadWarps * 32, 1)
    ssd_forward_2(const __grid_constant__ SsdParams p) {
  forward<2>(p);
}

}  // namespace megacpp::runtime::cuda
