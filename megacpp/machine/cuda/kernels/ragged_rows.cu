// SPDX-License-Identifier: Apache-2.0
// From counts to lists of rows: the first block lists every expert's segments for the product that follows, the others
// zero the rows of its results that are nobody's. Counts that point beyond their chunk are cut there.
#include "megacpp/machine/cuda/kernels/ragged_dot_params.h"

namespace megacpp::runtime::cuda {
namespace {

// Counts of all groups and what becomes of them stay in shared memory where they fit: one trip to global memory.
constexpr int64_t kSharedGroups = 2048;

struct Rows {
  int64_t start, end;
};

// Rows in use of an expert whose group begins at `start` of the chunk or later.
__device__ __forceinline__ Rows group_rows(const RowLayout& layout, const int32_t* counts, int64_t chunk,
                                           int64_t expert, int64_t start) {
  const int64_t chunk_end = (chunk + 1) * layout.chunk_rows;
  const int64_t most = layout.expert_rows > 0 ? layout.expert_rows : chunk_end - start;
  if (layout.expert_rows > 0) start = chunk * layout.chunk_rows + expert * layout.expert_rows;
  const int64_t count = counts[chunk * layout.experts + expert];
  return {start, start + min(max(count, int64_t{0}), most)};
}

__device__ __forceinline__ int32_t segments_of(int32_t rows) { return (rows + kSegmentRows - 1) / kSegmentRows; }

__device__ void find_groups(const RowLayout& layout, const int32_t* counts, RowGroup* groups) {
  for (int64_t chunk = threadIdx.x; chunk < layout.chunks; chunk += blockDim.x) {
    int64_t start = chunk * layout.chunk_rows;
    for (int64_t expert = 0; expert < layout.experts; ++expert) {
      const Rows rows = group_rows(layout, counts, chunk, expert, start);
      groups[expert * layout.chunks + chunk] = {static_cast<int32_t>(rows.start),
                                                static_cast<int32_t>(rows.end - rows.start), 0};
      start = rows.end;
    }
  }
}

// first[expert + 1] = segments of the expert, until they are summed.
__device__ void count_segments(const RaggedRowsParams& p, const RowGroup* groups) {
  for (int64_t expert = threadIdx.x; expert < p.layout.experts; expert += blockDim.x) {
    int32_t segments = 0;
    for (int64_t chunk = 0; chunk < p.layout.chunks; ++chunk)
      segments += segments_of(groups[expert * p.layout.chunks + chunk].rows);
    p.first[expert + 1] = (segments + p.unit - 1) / p.unit * p.unit;
  }
}

__device__ void sum_segments(const RaggedRowsParams& p) {
  if (threadIdx.x > 0) return;
  int32_t sum = 0;
  p.first[0] = 0;
  for (int64_t expert = 0; expert < p.layout.experts; ++expert) p.first[expert + 1] = sum += p.first[expert + 1];
}

// Where each group's segments begin, and the empty ones at an expert's end.
__device__ void place_groups(const RaggedRowsParams& p, RowGroup* groups) {
  for (int64_t expert = threadIdx.x; expert < p.layout.experts; expert += blockDim.x) {
    int32_t at = p.first[expert], next_row = 0;
    for (int64_t chunk = 0; chunk < p.layout.chunks; ++chunk) {
      RowGroup& group = groups[expert * p.layout.chunks + chunk];
      group.first_segment = at;
      at += segments_of(group.rows);
      if (group.rows > 0) next_row = group.start + segments_of(group.rows) * kSegmentRows;
    }
    for (; at < p.first[expert + 1]; ++at, next_row += kSegmentRows)
      p.segments[at] = {next_row, 0, static_cast<uint16_t>(expert)};
  }
}

__device__ void list_segments(const RaggedRowsParams& p, const RowGroup* groups) {
  const int64_t count = p.layout.experts * p.layout.chunks;
  for (int64_t g = threadIdx.x / 32; g < count; g += blockDim.x / 32) {
    const RowGroup group = groups[g];
    for (int32_t i = static_cast<int32_t>(threadIdx.x % 32); i < segments_of(group.rows); i += 32)
      p.segments[group.first_segment + i] = {group.start + i * kSegmentRows,
                                             static_cast<uint16_t>(min(group.rows - i * kSegmentRows, kSegmentRows)),
                                             static_cast<uint16_t>(g / p.layout.chunks)};
  }
}

__device__ void list_rows(const RaggedRowsParams& p) {
  __shared__ int32_t shared_counts[kSharedGroups];
  __shared__ RowGroup shared_groups[kSharedGroups];
  const int64_t count = p.layout.experts * p.layout.chunks;
  const bool fits = count <= kSharedGroups;
  const int32_t* const counts = fits ? shared_counts : p.counts;
  RowGroup* const groups = fits ? shared_groups : p.groups;
  for (int64_t g = threadIdx.x; fits && g < count; g += blockDim.x) shared_counts[g] = p.counts[g];
  __syncthreads();
  find_groups(p.layout, counts, groups);
  __syncthreads();
  count_segments(p, groups);
  __syncthreads();
  sum_segments(p);
  __syncthreads();
  place_groups(p, groups);
  __syncthreads();
  list_segments(p, groups);
}

// This block's part of some rows of one result: zeros, or the addend's.
__device__ void fill_rows(const RaggedRowsParams& p, int result, int part, int64_t begin, int64_t end) {
  unsigned char* const to = p.results[result] + begin * p.row_bytes;
  const unsigned char* const from = p.addend == nullptr || result > 0 ? nullptr : p.addend + begin * p.row_bytes;
  const int64_t bytes = (end - begin) * p.row_bytes;
  const int64_t first = part * int64_t{kRowsThreads} + threadIdx.x, stride = p.fill_blocks * int64_t{kRowsThreads};
  if (p.row_bytes % 16 == 0) {
    for (int64_t i = first; i < bytes / 16; i += stride)
      reinterpret_cast<uint4*>(to)[i] =
          from == nullptr ? make_uint4(0, 0, 0, 0) : reinterpret_cast<const uint4*>(from)[i];
  } else {
    for (int64_t i = first; i < bytes / 2; i += stride)
      reinterpret_cast<uint16_t*>(to)[i] = from == nullptr ? uint16_t{0} : reinterpret_cast<const uint16_t*>(from)[i];
  }
}

// This block's part of the rows of a chunk that no group has.
__device__ void fill_unused_rows(const RaggedRowsParams& p, int64_t chunk, int part) {
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int r = 0; r < kMostRowResults && p.results[r] != nullptr; ++r) fill_rows(p, r, part, begin, end);
  };
  int64_t done = chunk * p.layout.chunk_rows;
  for (int64_t expert = 0; expert < p.layout.experts; ++expert) {
    const Rows rows = group_rows(p.layout, p.counts, chunk, expert, done);
    fill(done, rows.start);
    done = rows.end;
  }
  fill(done, (chunk + 1) * p.layout.chunk_rows);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kRowsThreads) ragged_rows(const __grid_constant__ RaggedRowsParams p) {
  if (blockIdx.x > 0) {
    const int block = static_cast<int>(blockIdx.x) - 1;
    fill_unused_rows(p, block / p.fill_blocks, block % p.fill_blocks);
    return;
  }
  list_rows(p);
}

}  // namespace megacpp::runtime::cuda
