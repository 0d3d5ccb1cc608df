// SPDX-License-Identifier: Apache-2.0
// Tiles of the simple attention kernels: 64 x 64 by 256 threads with arithmetic in f32, for any head width, dtype and
// mask. Thread (ty, tx) of 16 x 16 has rows ty + 16 i and columns tx + 16 j of every tile, i and j below 4.
// The columns of a result are split in chunks of 64, one to a block, which computes the scores by itself.
#pragma once

#include <cuda_bf16.h>

#include "megacpp/machine/cuda/kernels/attention_params.h"

namespace megacpp::runtime::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kDepth = 32;               // of what is staged at once
inline constexpr int kPitch = kTokenBlock + 1;  // no two rows of a column in one bank
inline constexpr int kMicro = 4;                // rows and columns of a thread

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void store(float* to, float value) { *to = value; }
__device__ inline void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

__device__ inline int thread_row() { return static_cast<int>(threadIdx.x) / 16; }
__device__ inline int thread_column() { return static_cast<int>(threadIdx.x) % 16; }

/// Consecutive tokens of one head: `rows` of them are real, the others read as zeros.
template <typename T>
struct HeadRows {
  T* first;
  int64_t stride;  // elements from one token to the next
  int32_t rows;
};

struct TileSharedMemory {
  float a[kDepth][kPitch];
  float b[kDepth][kPitch];
  float weights[kTokenBlock][kPitch];  // [query, key]
};

using Accumulators = float[kMicro][kMicro];

__device__ inline void clear(Accumulators& sums) {
#pragma unroll
  for (int i = 0; i < kMicro; ++i)
#pragma unroll
    for (int j = 0; j < kMicro; ++j) sums[i][j] = 0.0F;
}

// Columns [first, first + 32) of the rows, transposed: to[column][row].
template <typename T>
__device__ void stage_columns(const HeadRows<T>& from, int32_t first, int32_t dim, float (&to)[kDepth][kPitch]) {
  const int column = static_cast<int>(threadIdx.x) % kDepth;
  for (int row = static_cast<int>(threadIdx.x) / kDepth; row < kTokenBlock; row += kThreads / kDepth) {
    const bool inside = row < from.rows && first + column < dim;
    to[column][row] = inside ? to_float(from.first[row * from.stride + first + column]) : 0.0F;
  }
}

// Rows [first, first + 32) and columns [chunk, chunk + 64): to[row][column].
template <typename T>
__device__ void stage_rows(const HeadRows<T>& from, int32_t first, int32_t chunk, int32_t dim,
                           float (&to)[kDepth][kPitch]) {
  const int column = static_cast<int>(threadIdx.x) % kTokenBlock;
  for (int row = static_cast<int>(threadIdx.x) / kTokenBlock; row < kDepth; row += kThreads / kTokenBlock) {
    const bool inside = first + row < from.rows && chunk + column < dim;
    to[row][column] = inside ? to_float(from.first[(first + row) * from.stride + chunk + column]) : 0.0F;
  }
}

/// sums = a . b^T over all columns. Ends with the shared memory free for others.
template <typename T>
__device__ void dot_rows(const HeadRows<T>& a, const HeadRows<T>& b, int32_t dim, TileSharedMemory& shared,
                         Accumulators& sums) {
  clear(sums);
  const int ty = thread_row(), tx = thread_column();
  for (int32_t first = 0; first < dim; first += kDepth) {
    stage_columns(a, first, dim, shared.a);
    stage_columns(b, first, dim, shared.b);
    __syncthreads();
#pragma unroll 8
    for (int c = 0; c < kDepth; ++c) {
      float left[kMicro], right[kMicro];
#pragma unroll
      for (int i = 0; i < kMicro; ++i) left[i] = shared.a[c][ty + 16 * i];
#pragma unroll
      for (int j = 0; j < kMicro; ++j) right[j] = shared.b[c][tx + 16 * j];
#pragma unroll
      for (int i = 0; i < kMicro; ++i)
#pragma unroll
        for (int j = 0; j < kMicro; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
    }
    __syncthreads();
  }
}

/// The other side's weights: of queries by key, or of keys by query.
enum class WeightSide { queries, keys };

/// sums += weights . rows, or weights^T . rows, for columns [chunk, chunk + 64). The weights are written; ends with the
/// staging free and all threads past their reads of the weights.
template <WeightSide side, typename T>
__device__ void add_weighted_rows(const HeadRows<T>& rows, int32_t chunk, int32_t dim, TileSharedMemory& shared,
                                  Accumulators& sums) {
  const int ty = thread_row(), tx = thread_column();
  for (int32_t first = 0; first < kTokenBlock; first += kDepth) {
    stage_rows(rows, first, chunk, dim, shared.b);
    __syncthreads();
#pragma unroll 8
    for (int c = 0; c < kDepth; ++c) {
      float left[kMicro], right[kMicro];
#pragma unroll
      for (int i = 0; i < kMicro; ++i)
        left[i] = side == WeightSide::queries ? shared.weights[ty + 16 * i][first + c]
                                              : shared.weights[first + c][ty + 16 * i];
#pragma unroll
      for (int j = 0; j < kMicro; ++j) right[j] = shared.b[c][tx + 16 * j];
#pragma unroll
      for (int i = 0; i < kMicro; ++i)
#pragma unroll
        for (int j = 0; j < kMicro; ++j) sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
    }
    __syncthreads();
  }
}

__device__ inline void keep_weights(const Accumulators& values, TileSharedMemory& shared) {
#pragma unroll
  for (int i = 0; i < kMicro; ++i)
#pragma unroll
    for (int j = 0; j < kMicro; ++j) shared.weights[thread_row() + 16 * i][thread_column() + 16 * j] = values[i][j];
}

/// Columns [chunk, chunk + 64) of `rows` tokens, times `factor`.
template <typename T>
__device__ void store_rows(const Accumulators& sums, float factor, int32_t chunk, int32_t dim, const HeadRows<T>& to) {
#pragma unroll
  for (int i = 0; i < kMicro; ++i)
#pragma unroll
    for (int j = 0; j < kMicro; ++j) {
      const int row = thread_row() + 16 * i, column = chunk + thread_column() + 16 * j;
      if (row < to.rows && column < dim) store(to.first + row * to.stride + column, sums[i][j] * factor);
    }
}

/// What one block of threads works on: a token block of one head of one batch row, and a chunk of columns.
struct BlockTask {
  int32_t block, b, head, chunk;
};

/// Of block `index`: chunks change fastest, then heads, batch rows and token blocks.
__device__ inline BlockTask task_of(uint32_t index, int32_t heads, const AttentionShape& z) {
  const uint32_t chunks = static_cast<uint32_t>(z.dim + kTokenBlock - 1) / kTokenBlock;
  const uint32_t head = index / chunks, row = head / static_cast<uint32_t>(heads);
  return {.block = static_cast<int32_t>(row / static_cast<uint32_t>(z.batch)),
          .b = static_cast<int32_t>(row % static_cast<uint32_t>(z.batch)),
          .head = static_cast<int32_t>(head % static_cast<uint32_t>(heads)),
          .chunk = static_cast<int32_t>(index % chunks) * kTokenBlock};
}

__device__ inline int32_t block_end(int32_t block, int32_t tokens) {
  const int32_t end = (block + 1) * kTokenBlock;
  return end < tokens ? end : tokens;
}

/// T is const where the rows are only read.
template <typename T>
__device__ HeadRows<T> query_rows(T* base, const AttentionShape& z, const BlockTask& at) {
  return {base + z.query_at(at.b, at.head, at.block * kTokenBlock), static_cast<int64_t>(z.heads) * z.dim,
          block_end(at.block, z.queries) - at.block * kTokenBlock};
}
template <typename T>
__device__ HeadRows<T> key_rows(T* base, const AttentionShape& z, const BlockTask& at) {
  return {base + z.key_at(at.b, at.head, at.block * kTokenBlock), static_cast<int64_t>(z.kv_heads) * z.dim,
          block_end(at.block, z.keys) - at.block * kTokenBlock};
}

/// Of the tile of two token blocks.
__device__ inline TileCover tile_cover(const TileVisibility& visibility, int32_t b, int32_t query_block,
                                       int32_t key_block) {
  const AttentionShape& z = visibility.shape;
  const int32_t query = query_block * kTokenBlock, key = key_block * kTokenBlock;
  const TileCover cover =
      visibility.mask.cover(visibility.range_of_queries(b, query, block_end(query_block, z.queries)),
                            visibility.range_of_keys(b, key, block_end(key_block, z.keys)));
  // Rows and columns past the end are hidden.
  const bool whole = query + kTokenBlock <= z.queries && key + kTokenBlock <= z.keys;
  return cover == TileCover::all && !whole ? TileCover::some : cover;
}

}  // namespace megacpp::runtime::cuda
