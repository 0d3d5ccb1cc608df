// SPDX-License-Identifier: Apache-2.0
// What the tensor-core kernels of ssd share: tiles in shared memory, fragments of them, and the decays of a chunk.
// A fragment of sums [16, 8] holds in each lane (row, column) = (lane / 4, 2 (lane % 4)), the next column, and both
// again 8 rows below.
#pragma once

#include "megacpp/runtime/cuda/kernels/float_access.cuh"
#include "megacpp/runtime/cuda/kernels/ssd_params.h"

namespace megacpp::runtime::cuda {

__device__ inline int own_lane() { return static_cast<int>(threadIdx.x) % 32; }
/// Of this lane in a fragment.
__device__ inline int fragment_row() { return own_lane() / 4; }
__device__ inline int fragment_column() { return own_lane() % 4 * 2; }

/// bf16 [rows, kColumns]. The units of 16 bytes change places from row to row, so that a column of units lies in all
/// banks.
template <int kColumns>
struct SharedTile {
  uint16_t* data;

  __device__ uint16_t* unit(int row, int unit) const { return data + row * kColumns + (unit ^ (row & 7)) * 8; }
  /// Two elements, the first in an even column.
  __device__ uint32_t& pair(int row, int column) const {
    return *reinterpret_cast<uint32_t*>(unit(row, column / 8) + column % 8);
  }
};

/// Left operand [16, 16] from (row, k) of a tile [rows, k].
template <int kColumns>
__device__ void load_left(const SharedTile<kColumns>& tile, int row, int k, uint32_t (&a)[4]) {
  load_matrices(a, tile.unit(row + own_lane() % 16, k / 8 + own_lane() / 16));
}

/// The same of a tile that stands as [k, rows].
template <int kColumns>
__device__ void load_left_transposed(const SharedTile<kColumns>& tile, int row, int k, uint32_t (&a)[4]) {
  load_matrices_transposed(a, tile.unit(k + own_lane() % 8 + own_lane() / 16 * 8, row / 8 + own_lane() / 8 % 2));
}

/// Right operands [16, 8] of columns and columns + 8, from a tile that stands as [columns, k].
template <int kColumns>
__device__ void load_right(const SharedTile<kColumns>& tile, int column, int k, uint32_t (&b)[4]) {
  load_matrices(b, tile.unit(column + own_lane() % 8 + own_lane() / 16 * 8, k / 8 + own_lane() / 8 % 2));
}

/// The same of a tile [k, columns].
template <int kColumns>
__device__ void load_right_transposed(const SharedTile<kColumns>& tile, int column, int k, uint32_t (&b)[4]) {
  load_matrices_transposed(b, tile.unit(k + own_lane() % 16, column / 8 + own_lane() / 16));
}

/// sums of 16 columns += a b.
__device__ inline void multiply_add_pair(float (&low)[4], float (&high)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[4]) {
  multiply_add(low, a, b[0], b[1]);
  multiply_add(high, a, b[2], b[3]);
}

/// Multiplies column k of a left operand by factors[k].
__device__ inline void scale_columns(uint32_t (&a)[4], const float* factors) {
  const float* f = factors + fragment_column();
  a[0] = to_bf16_pair(low_of(a[0]) * f[0], high_of(a[0]) * f[1]);
  a[1] = to_bf16_pair(low_of(a[1]) * f[0], high_of(a[1]) * f[1]);
  a[2] = to_bf16_pair(low_of(a[2]) * f[8], high_of(a[2]) * f[9]);
  a[3] = to_bf16_pair(low_of(a[3]) * f[8], high_of(a[3]) * f[9]);
}

/// Sums of 16 rows to a tile, the first of `column`s from `row`.
template <int kTiles, int kColumns>
__device__ void store_sums(const float (&sums)[kTiles][4], const SharedTile<kColumns>& tile, int row, int column) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int at = column + n * 8 + fragment_column();
    tile.pair(row + fragment_row(), at) = to_bf16_pair(sums[n][0], sums[n][1]);
    tile.pair(row + fragment_row() + 8, at) = to_bf16_pair(sums[n][2], sums[n][3]);
  }
}

/// Rows of a tensor, `stride` elements apart.
struct GlobalRows {
  uint16_t* data;
  int64_t stride;
  int64_t count;  // that are there; the others read as zeros
};

/// By `threads` threads, of which this is number `thread`.
template <int kColumns>
__device__ void start_copying(const GlobalRows& from, const SharedTile<kColumns>& to, int thread, int threads) {
  constexpr int kUnits = kColumns / 8;
#pragma unroll 1
  for (int i = thread; i < kSsdChunk * kUnits; i += threads) {
    const int row = i / kUnits, unit = i % kUnits;
    const bool is_there = row < from.count;
    start_copy(to.unit(row, unit), from.data + (is_there ? row * from.stride : 0) + unit * 8, is_there);
  }
}

/// 16 rows of a tile from `row`, kUnits units from `unit`, by one warp.
template <int kUnits, int kColumns>
__device__ void write_rows(const SharedTile<kColumns>& from, int row, int unit, const GlobalRows& to) {
#pragma unroll 2
  for (int i = own_lane(); i < 16 * kUnits; i += 32) {
    const int r = row + i / kUnits, u = unit + i % kUnits;
    if (r < to.count)
      *reinterpret_cast<uint4*>(to.data + r * to.stride + u * 8) = *reinterpret_cast<uint4*>(from.unit(r, u));
  }
}

/// Of one head in one chunk. Positions past the sequence's end neither decay nor add.
struct Decays {
  float log2_sum[kSsdChunk];  // log2 of the decay from the chunk's start to each position
  float dt[kSsdChunk];
  float from_start[kSsdChunk];  // decay from the chunk's start; zero once a document has begun
  float to_end[kSsdChunk];      // decay to the chunk's end; zero before its last document
  float added[kSsdChunk];       // dt to_end
  int first[kSsdChunk];         // position that the document began at, 0 where that was before the chunk

  __device__ float whole() const { return from_start[kSsdChunk - 1]; }
  /// From position j to i; zero for later positions and other documents.
  __device__ float between(int i, int j) const {
    return j <= i && j >= first[i] ? exp2_of(log2_sum[i] - log2_sum[j]) : 0.0F;
  }
};

/// Where a chunk of a head stands.
struct ChunkPlace {
  int64_t batch, head, chunk;
};

/// How far the token at t is into its document; positions past the end go on from the last one.
__device__ inline int64_t place_in_document(const SsdParams& p, int64_t batch, int64_t t) {
  const int64_t last = p.sizes.seq - 1, there = t < last ? t : last;
  return reinterpret_cast<const int32_t*>(p.positions)[batch * p.sizes.seq + there] + (t - there);
}

/// By one warp, two positions a lane.
__device__ inline void fill_decays(const SsdParams& p, const ChunkPlace& place, Decays& decays) {
  constexpr float kLog2E = 1.44269504F;
  const int lane = own_lane();
  const int64_t start = place.chunk * kSsdChunk;
  const float rate = load_one(p.a, place.head) * kLog2E;
  float dt[2], sums[2];
  for (int k = 0; k < 2; ++k) {
    const int64_t t = start + 2 * lane + k;
    dt[k] = t < p.sizes.seq ? load_one(p.dt, (place.batch * p.sizes.seq + t) * p.sizes.heads + place.head) : 0.0F;
  }
  sums[0] = dt[0] * rate, sums[1] = sums[0] + dt[1] * rate;
  float before = sums[1];
  for (int distance = 1; distance < 32; distance *= 2) {
    const float other = __shfl_up_sync(0xffffffffU, before, distance);
    if (lane >= distance) before += other;
  }
  before = __shfl_up_sync(0xffffffffU, before, 1);
  if (lane == 0) before = 0.0F;
  sums[0] += before, sums[1] += before;
  const float last = __shfl_sync(0xffffffffU, sums[1], 31);
  const int64_t end = kSsdChunk - 1;
  const int64_t last_first = p.positions == 0 ? 0 : end - place_in_document(p, place.batch, start + end);
  for (int k = 0; k < 2; ++k) {
    const int i = 2 * lane + k;
    const int64_t first = p.positions == 0 ? -1 : i - place_in_document(p, place.batch, start + i);
    decays.log2_sum[i] = sums[k];
    decays.dt[i] = dt[k];
    decays.from_start[i] = first < 0 ? exp2_of(sums[k]) : 0.0F;
    decays.to_end[i] = i < last_first ? 0.0F : exp2_of(last - sums[k]);
    decays.added[i] = dt[k] * decays.to_end[i];
    decays.first[i] = first < 0 ? 0 : static_cast<int>(first);
  }
}

}  // namespace megacpp::runtime::cuda
