// SPDX-License-Identifier: Apache-2.0
// What the tensor-core kernels of ssd share: tiles in shared memory, fragments of them, and the decays of a chunk.
// A fragment [16, 8] holds in each lane (row, column) = (lane / 4, 2 (lane % 4)), the next column, and both again 8
// rows below.
#pragma once

#include "megacpp/machine/cuda/kernels/float_access.cuh"
#include "megacpp/machine/cuda/kernels/ssd_params.h"

namespace megacpp::runtime::cuda {

__device__ inline int own_lane() { return static_cast<int>(threadIdx.x) % 32; }
/// Of this lane in a fragment.
__device__ inline int fragment_row() { return own_lane() / 4; }
__device__ inline int fragment_column() { return own_lane() % 4 * 2; }

/// bf16 [64, kColumns] as tensor cores read it: pieces of 64 columns one after the other, and in each row of a piece
/// the units of 16 bytes change places from row to row, so that a column of units lies in all banks.
template <int kColumns>
struct SharedTile {
  uint16_t* data;

  __device__ uint16_t* unit(int row, int unit) const {
    return data + unit / 8 * (kSsdChunk * 64) + row * 64 + ((unit % 8) ^ (row & 7)) * 8;
  }
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

/// Multiplies column k of a left operand by factors[k].
__device__ inline void scale_columns(uint32_t (&a)[4], const float* factors) {
  const float* f = factors + fragment_column();
  a[0] = to_bf16_pair(low_of(a[0]) * f[0], high_of(a[0]) * f[1]);
  a[1] = to_bf16_pair(low_of(a[1]) * f[0], high_of(a[1]) * f[1]);
  a[2] = to_bf16_pair(low_of(a[2]) * f[8], high_of(a[2]) * f[9]);
  a[3] = to_bf16_pair(low_of(a[3]) * f[8], high_of(a[3]) * f[9]);
}

/// Multiplies row r of one by factors[r]; the operand begins at row 0 of the factors.
__device__ inline void scale_rows(uint32_t (&a)[4], const float* factors) {
  const float above = factors[fragment_row()], below = factors[fragment_row() + 8];
  a[0] = to_bf16_pair(low_of(a[0]) * above, high_of(a[0]) * above);
  a[1] = to_bf16_pair(low_of(a[1]) * below, high_of(a[1]) * below);
  a[2] = to_bf16_pair(low_of(a[2]) * above, high_of(a[2]) * above);
  a[3] = to_bf16_pair(low_of(a[3]) * below, high_of(a[3]) * below);
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
};

/// Where a chunk of a head stands.
struct ChunkPlace {
  int64_t batch, head, chunk;
};

/// What the decays of a chunk are made of: asked for early, so that nobody waits for memory. Two positions a lane.
struct DecayInputs {
  float rate, dt[2];
  int32_t places[2], last_place;  // of tokens in their documents; those past the end as the last one
};

__device__ inline int32_t place_in_document(const SsdParams& p, int64_t batch, int64_t t) {
  const int64_t last = p.sizes.seq - 1;
  return reinterpret_cast<const int32_t*>(p.positions)[batch * p.sizes.seq + (t < last ? t : last)];
}

/// By one warp.
__device__ inline DecayInputs ask_decays(const SsdParams& p, const ChunkPlace& place) {
  const int64_t start = place.chunk * kSsdChunk;
  DecayInputs inputs = {};
  inputs.rate = load_one(p.a, place.head);
  for (int k = 0; k < 2; ++k) {
    const int64_t t = start + 2 * own_lane() + k;
    if (t < p.sizes.seq) inputs.dt[k] = load_one(p.dt, (place.batch * p.sizes.seq + t) * p.sizes.heads + place.head);
    if (p.positions != 0) inputs.places[k] = place_in_document(p, place.batch, t);
  }
  if (p.positions != 0) inputs.last_place = place_in_document(p, place.batch, start + kSsdChunk - 1);
  return inputs;
}

/// By the same warp.
__device__ inline void fill_decays(const SsdParams& p, const ChunkPlace& place, const DecayInputs& inputs,
                                   Decays& decays) {
  constexpr float kLog2E = 1.44269504F;
  const int lane = own_lane();
  const int64_t left = p.sizes.seq - 1 - place.chunk * kSsdChunk;  // positions behind the chunk's first one
  const float rate = inputs.rate * kLog2E;
  const float* const dt = inputs.dt;
  float sums[2];
  // Where the document of position i began, in positions of this chunk.
  const auto first_of = [&](int i, int32_t token_place) { return (i < left ? i : left) - token_place; };
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
  const int64_t last_first = p.positions == 0 ? 0 : first_of(kSsdChunk - 1, inputs.last_place);
  for (int k = 0; k < 2; ++k) {
    const int i = 2 * lane + k;
    const int64_t first = p.positions == 0 ? -1 : first_of(i, inputs.places[k]);
    decays.log2_sum[i] = sums[k];
    decays.dt[i] = dt[k];
    decays.from_start[i] = first < 0 ? exp2_of(sums[k]) : 0.0F;
    decays.to_end[i] = i < last_first ? 0.0F : exp2_of(last - sums[k]);
    decays.added[i] = dt[k] * decays.to_end[i];
    decays.first[i] = first < 0 ? 0 : static_cast<int>(first);
  }
}

}  // namespace megacpp::runtime::cuda
