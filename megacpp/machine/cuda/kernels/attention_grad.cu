// SPDX-License-Identifier: Apache-2.0
// Attention backward for every node. The weights of a tile are computed again from lse, once for dq by query block and
// once for dk, dv by key block: every result element is summed by one thread in a fixed order.
#include "megacpp/machine/cuda/kernels/attention_tile.cuh"

namespace megacpp::runtime::cuda {
namespace {

// lse and dout . out of the thread's queries.
struct RowStatistics {
  float lse[kMicro];
  float delta[kMicro];
};

__device__ RowStatistics statistics_of(const AttentionGradParams& p, const BlockTask& queries) {
  const AttentionShape& z = p.visibility.shape;
  RowStatistics rows;
#pragma unroll
  for (int i = 0; i < kMicro; ++i) {
    const int32_t query = queries.block * kTokenBlock + thread_row() + 16 * i;
    const int64_t at = z.lse_at(queries.b, queries.head, query < z.queries ? query : 0);
    rows.lse[i] = p.lse[at];
    rows.delta[i] = p.delta[at];
  }
  return rows;
}

// Weights and the cotangents of the scores before scaling, ds = p (dout v^T - delta), of one tile.
template <typename T>
__device__ void weights_of(const AttentionGradParams& p, const BlockTask& queries, const BlockTask& keys,
                           TileCover cover, TileSharedMemory& shared, Accumulators& weights, Accumulators& cotangents) {
  const AttentionShape& z = p.visibility.shape;
  const RowStatistics rows = statistics_of(p, queries);
  dot_rows(query_rows(static_cast<const T*>(p.q), z, queries), key_rows(static_cast<const T*>(p.k), z, keys), z.dim,
           shared, weights);
  dot_rows(query_rows(static_cast<const T*>(p.dout), z, queries), key_rows(static_cast<const T*>(p.v), z, keys), z.dim,
           shared, cotangents);
#pragma unroll
  for (int i = 0; i < kMicro; ++i)
#pragma unroll
    for (int j = 0; j < kMicro; ++j) {
      const int32_t query = queries.block * kTokenBlock + thread_row() + 16 * i;
      const int32_t key = keys.block * kTokenBlock + thread_column() + 16 * j;
      const bool seen = cover == TileCover::all || p.visibility.visible(queries.b, query, key);
      weights[i][j] = seen ? expf(weights[i][j] * z.scale - rows.lse[i]) : 0.0F;
      cotangents[i][j] = weights[i][j] * (cotangents[i][j] - rows.delta[i]);
    }
}

template <typename T>
__device__ void add_queries(const AttentionGradParams& p) {
  __shared__ TileSharedMemory shared;
  const TileVisibility& visibility = p.visibility;
  const AttentionShape& z = visibility.shape;
  BlockTask at = task_of(blockIdx.x, z.heads, z);
  at.block = blocks_of_tokens(z.queries) - 1 - at.block;  // a causal mask leaves most work to the last queries
  Accumulators dq;
  clear(dq);
  const BlockRange blocks = visibility.key_blocks(at.block * kTokenBlock, block_end(at.block, z.queries), kTokenBlock);
  for (int32_t block = blocks.begin; block < blocks.end; ++block) {
    const TileCover cover = tile_cover(visibility, at.b, at.block, block);
    if (cover == TileCover::none) continue;
    const BlockTask keys{.block = block, .b = at.b, .head = at.head / z.group(), .chunk = at.chunk};
    Accumulators weights, cotangents;
    weights_of<T>(p, at, keys, cover, shared, weights, cotangents);
    keep_weights(cotangents, shared);
    add_weighted_rows<WeightSide::queries>(key_rows(static_cast<const T*>(p.k), z, keys), at.chunk, z.dim, shared, dq);
  }
  store_rows(dq, z.scale, at.chunk, z.dim, query_rows(static_cast<T*>(p.dq), z, at));
}

template <typename T>
__device__ void add_keys(const AttentionGradParams& p) {
  __shared__ TileSharedMemory shared;
  const TileVisibility& visibility = p.visibility;
  const AttentionShape& z = visibility.shape;
  const BlockTask at = task_of(blockIdx.x, z.kv_heads, z);
  Accumulators dk, dv;
  clear(dk);
  clear(dv);
  const BlockRange blocks = visibility.query_blocks(at.block * kTokenBlock, block_end(at.block, z.keys), kTokenBlock);
  for (int32_t head = at.head * z.group(); head < (at.head + 1) * z.group(); ++head)
    for (int32_t block = blocks.begin; block < blocks.end; ++block) {
      const TileCover cover = tile_cover(visibility, at.b, block, at.block);
      if (cover == TileCover::none) continue;
      const BlockTask queries{.block = block, .b = at.b, .head = head, .chunk = at.chunk};
      Accumulators weights, cotangents;
      weights_of<T>(p, queries, at, cover, shared, weights, cotangents);
      keep_weights(weights, shared);
      add_weighted_rows<WeightSide::keys>(query_rows(static_cast<const T*>(p.dout), z, queries), at.chunk, z.dim,
                                          shared, dv);
      keep_weights(cotangents, shared);
      add_weighted_rows<WeightSide::keys>(query_rows(static_cast<const T*>(p.q), z, queries), at.chunk, z.dim, shared,
                                          dk);
    }
  store_rows(dk, z.scale, at.chunk, z.dim, key_rows(static_cast<T*>(p.dk), z, at));
  store_rows(dv, 1.0F, at.chunk, z.dim, key_rows(static_cast<T*>(p.dv), z, at));
}

// A warp a query of one head: index counts batch rows, then queries, then heads.
template <typename T>
__device__ void find_delta(const AttentionGradParams& p) {
  const AttentionShape& z = p.visibility.shape;
  const int64_t index = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  if (index >= static_cast<int64_t>(z.batch) * z.queries * z.heads) return;
  const T* out = static_cast<const T*>(p.out) + index * z.dim;
  const T* dout = static_cast<const T*>(p.dout) + index * z.dim;
  float sum = 0.0F;
  for (int32_t column = lane; column < z.dim; column += 32)
    sum = fmaf(to_float(out[column]), to_float(dout[column]), sum);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  const int64_t token = index / z.heads;
  if (lane == 0)
    p.delta[z.lse_at(static_cast<int32_t>(token / z.queries), static_cast<int32_t>(index % z.heads),
                     static_cast<int32_t>(token % z.queries))] = sum;
}

}  // namespace

#define MEGACPP_ATTENTION_GRAD(name, body)                                                                     \
  extern "C" __global__ void __launch_bounds__(kThreads) name(const __grid_constant__ AttentionGradParams p) { \
    body(p);                                                                                                   \
  }
MEGACPP_ATTENTION_GRAD(attention_delta_f32, find_delta<float>)
MEGACPP_ATTENTION_GRAD(attention_delta_bf16, find_delta<__nv_bfloat16>)
MEGACPP_ATTENTION_GRAD(attention_dq_f32, add_queries<float>)
MEGACPP_ATTENTION_GRAD(attention_dq_bf16, add_queries<__nv_bfloat16>)
MEGACPP_ATTENTION_GRAD(attention_dkv_f32, add_keys<float>)
MEGACPP_ATTENTION_GRAD(attention_dkv_bf16, add_keys<__nv_bfloat16>)
#undef MEGACPP_ATTENTION_GRAD

}  // namespace megacpp::runtime::cuda
