// SPDX-License-Identifier: Apache-2.0
// Attention forward for every node: a block of threads makes 64 columns of the results of 64 queries of one head, tile
// by tile of the keys they see, rescaling what it has summed when a higher score is met.
#include "megacpp/machine/cuda/kernels/attention_tile.cuh"

namespace megacpp::runtime::cuda {
namespace {

// Of the thread's rows; the same in all sixteen threads of a row.
struct RowStatistics {
  float highest[kMicro];
  float sum[kMicro];
};

__device__ float max_of_row(float value) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, distance, 16));
  return value;
}

__device__ float sum_of_row(float value) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffU, value, distance, 16);
  return value;
}

// Scores become weights relative to the highest score so far.
__device__ void soften(Accumulators& scores, RowStatistics& rows, Accumulators& out) {
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
    float highest = scores[i][0];
#pragma unroll
    for (int j = 1; j < kMicro; ++j) highest = fmaxf(highest, scores[i][j]);
    highest = fmaxf(rows.highest[i], max_of_row(highest));
    const float factor = expf(rows.highest[i] - highest);
    float sum = 0.0F;
#pragma unroll
    for (int j = 0; j < kMicro; ++j) {
      scores[i][j] = expf(scores[i][j] - highest);
      sum += scores[i][j];
      out[i][j] *= factor;
    }
    rows.sum[i] = rows.sum[i] * factor + sum_of_row(sum);
    rows.highest[i] = highest;
  }
}

template <typename T>
__device__ void attend(const AttentionParams& p) {
  __shared__ TileSharedMemory shared;
  const TileVisibility& visibility = p.visibility;
  const AttentionShape& z = visibility.shape;
  BlockTask at = task_of(blockIdx.x, z.heads, z);
  at.block = blocks_of_tokens(z.queries) - 1 - at.block;  // a causal mask leaves most work to the last queries
  const int32_t first_query = at.block * kTokenBlock;
  const HeadRows<const T> q = query_rows(static_cast<const T*>(p.q), z, at);
  Accumulators out;
  clear(out);
  RowStatistics rows;
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
    rows.highest[i] = kHiddenLse;
    rows.sum[i] = 0.0F;
  }
  const BlockRange blocks = visibility.key_blocks(first_query, block_end(at.block, z.queries), kTokenBlock);
  for (int32_t block = blocks.begin; block < blocks.end; ++block) {
    const TileCover cover = tile_cover(visibility, at.b, at.block, block);
    if (cover == TileCover::none) continue;
    const BlockTask keys{.block = block, .b = at.b, .head = at.head / z.group(), .chunk = at.chunk};
    Accumulators scores;
    dot_rows(q, key_rows(static_cast<const T*>(p.k), z, keys), z.dim, shared, scores);
#pragma unroll
    for (int i = 0; i < kMicro; ++i)
#pragma unroll
      for (int j = 0; j < kMicro; ++j) {
        const int32_t query = first_query + thread_row() + 16 * i, key = block * kTokenBlock + thread_column() + 16 * j;
        const bool seen = cover == TileCover::all || visibility.visible(at.b, query, key);
        scores[i][j] = seen ? scores[i][j] * z.scale : -INFINITY;
      }
    soften(scores, rows, out);
    keep_weights(scores, shared);
    add_weighted_rows<WeightSide::queries>(key_rows(static_cast<const T*>(p.v), z, keys), at.chunk, z.dim, shared, out);
  }
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
    const bool saw_any = rows.sum[i] != 0.0F;  // else out is zero already
#pragma unroll
    for (int j = 0; j < kMicro; ++j) out[i][j] *= saw_any ? 1.0F / rows.sum[i] : 1.0F;
    const int32_t query = first_query + thread_row() + 16 * i;
    if (at.chunk == 0 && thread_column() == 0 && query < z.queries)
      p.lse[z.lse_at(at.b, at.head, query)] = saw_any ? rows.highest[i] + logf(rows.sum[i]) : kHiddenLse;
  }
  store_rows(out, 1.0F, at.chunk, z.dim, query_rows(static_cast<T*>(p.out), z, at));
}

// Labels of one block of tokens; index counts batch rows, then blocks.
__device__ TokenRange labels_of(const int32_t* positions, const int32_t* segments, int32_t index, int32_t tokens) {
  const int32_t blocks = blocks_of_tokens(tokens), b = index / blocks, block = index % blocks;
  const int32_t begin = block * kTokenBlock, end = block_end(block, tokens);
  TokenRange range{{begin, end - 1}, {0, 0}};
  const auto range_of = [&](const int32_t* labels) {
    LabelRange labelled{labels[begin], labels[begin]};
    for (int32_t at = begin + 1; at < end; ++at) labelled = join(labelled, {labels[at], labels[at]});
    return labelled;
  };
  if (positions != nullptr) range.positions = range_of(positions);
  if (segments != nullptr) range.segments = range_of(segments + static_cast<int64_t>(b) * tokens);
  return range;
}

}  // namespace

// Fills the token ranges: a thread a block of tokens.
extern "C" __global__ void attention_token_ranges(const __grid_constant__ TileVisibility p) {
  const AttentionShape& z = p.shape;
  const TokenLabels& tokens = p.tokens;
  const int32_t of_queries = z.batch * blocks_of_tokens(z.queries), of_keys = z.batch * blocks_of_tokens(z.keys);
  const int32_t index = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index < of_queries)
    tokens.query_ranges[index] = labels_of(tokens.query_positions, tokens.query_segments, index, z.queries);
  else if (index - of_queries < of_keys)
    tokens.key_ranges[index - of_queries] =
        labels_of(tokens.key_positions, tokens.key_segments, index - of_queries, z.keys);
}

extern "C" __global__ void __launch_bounds__(kThreads) attention_f32(const __grid_constant__ AttentionParams p) {
  attend<float>(p);
}

extern "C" __global__ void __launch_bounds__(kThreads) attention_bf16(const __grid_constant__ AttentionParams p) {
  attend<__nv_bfloat16>(p);
}

}  // namespace megacpp::runtime::cuda
