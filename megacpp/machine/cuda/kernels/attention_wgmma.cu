// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper's tensor cores: bf16, head widths 64 and 128. Blocks of threads stay on the device and
// take tiles of queries in turn, those with most keys first. One thread copies queries, keys and values ahead; every
// other warpgroup has 64 queries, whose products of weights and values run while the next weights are computed.
// Warpgroups take turns to start products, so that one computes weights while others multiply.
#include "megacpp/machine/cuda/kernels/attention_wgmma.cuh"

namespace megacpp::runtime::cuda {
namespace {

using hopper::Along;
using hopper::Barrier;

template <int dim>
struct SharedMemory {
  using Tile = ForwardTile<dim>;

  struct Barriers {
    Barrier q_full, q_empty;
    Barrier k_full[Tile::kStages], k_empty[Tile::kStages], v_full[Tile::kStages], v_empty[Tile::kStages];
  };
  static_assert(sizeof(Barriers) <= Tile::kBarrierBytes);

  uint32_t q, k, v;  // addresses; of the first stage
  Barriers* barriers;

  __device__ SharedMemory() {
    uint8_t* memory = hopper::dynamic_shared();
    q = hopper::shared_address(memory);
    k = q + Tile::kQueryBytes;
    v = k + Tile::kStages * Tile::kKeyBytes;
    barriers = reinterpret_cast<Barriers*>(memory + Tile::kQueryBytes + 2 * Tile::kStages * Tile::kKeyBytes);
  }

  __device__ void init_barriers() const {
    constexpr int kWarps = 4 * Tile::kConsumers;
    hopper::init(barriers->q_full, 1);
    hopper::init(barriers->q_empty, kWarps);
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      hopper::init(barriers->k_full[stage], 1);
      hopper::init(barriers->v_full[stage], 1);
      hopper::init(barriers->k_empty[stage], kWarps);
      hopper::init(barriers->v_empty[stage], kWarps);
    }
    hopper::fence_inits();
  }
};

// A tile of queries of one head.
struct QueryTile {
  int32_t b, head, first, end;  // queries [first, end)
};

// Tasks are ordered by the first query, the last tiles first.
template <int dim>
__device__ QueryTile query_tile(const AttentionShape& z, int32_t task) {
  constexpr int32_t kQueries = ForwardTile<dim>::kQueries;
  const int32_t rows = z.batch * z.heads, tiles = (z.queries + kQueries - 1) / kQueries;
  const int32_t first = (tiles - 1 - task / rows) * kQueries, row = task % rows;
  return {row / z.heads, row % z.heads, first, first + kQueries < z.queries ? first + kQueries : z.queries};
}

template <int dim>
__device__ int32_t task_count(const AttentionShape& z) {
  constexpr int32_t kQueries = ForwardTile<dim>::kQueries;
  return z.batch * z.heads * ((z.queries + kQueries - 1) / kQueries);
}

// The tiles of keys that a tile of queries sees, from the last to the first.
template <int dim, bool any_mask>
class KeyTiles {
 public:
  __device__ KeyTiles(const TileVisibility& visibility, const QueryTile& queries)
      : visibility_(visibility), queries_(queries) {
    const BlockRange blocks = visibility.key_blocks(queries.first, queries.end, kKeys);
    begin_ = blocks.begin;
    at_ = blocks.end;
  }

  __device__ bool next() {
    while (--at_ >= begin_)
      if (!any_mask || cover({queries_.first, queries_.end}) != TileCover::none) return true;
    return false;
  }
  __device__ int32_t first_key() const { return at_ * kKeys; }

  // Of the current tile and some of the queries; keys past the end are hidden.
  __device__ TileCover cover(TokenSpan queries) const {
    const TokenSpan keys = span_of(first_key(), kKeys, visibility_.shape.keys);
    const TileCover cover = cover_of<any_mask>(visibility_, queries_.b, queries, keys);
    return cover == TileCover::all && keys.end < keys.begin + kKeys ? TileCover::some : cover;
  }

 private:
  static constexpr int32_t kKeys = ForwardTile<dim>::kKeys;
  const TileVisibility& visibility_;
  const QueryTile& queries_;
  int32_t begin_, at_;
};

// One thread: copies what the other warpgroups read.
template <int dim, bool any_mask>
__device__ void copy_tiles(const AttentionTmaParams& p, const SharedMemory<dim>& shared) {
  using Tile = ForwardTile<dim>;
  const TileVisibility& visibility = p.node.visibility;
  const AttentionShape& z = visibility.shape;
  auto& barriers = *shared.barriers;
  Ring<Tile::kStages> keys;
  Ring<1> queries;
  for (int32_t task = static_cast<int32_t>(blockIdx.x); task < task_count<dim>(z);
       task += static_cast<int32_t>(gridDim.x)) {
    const QueryTile tile = query_tile<dim>(z, task);
    hopper::wait(barriers.q_empty, queries.phase() ^ 1U);
    hopper::arrive_expecting(barriers.q_full, Tile::kQueryBytes);
    hopper::copy_box(shared.q, &p.q, {{0, tile.head, tile.first, 0, tile.b}}, barriers.q_full);
    queries.advance();
    for (KeyTiles<dim, any_mask> tiles(visibility, tile); tiles.next();) {
      const hopper::BoxOrigin origin{{0, tile.head / z.group(), tiles.first_key(), 0, tile.b}};
      const uint32_t offset = static_cast<uint32_t>(keys.stage() * Tile::kKeyBytes);
      hopper::wait(barriers.k_empty[keys.stage()], keys.phase() ^ 1U);
      hopper::arrive_expecting(barriers.k_full[keys.stage()], Tile::kKeyBytes);
      hopper::copy_box(shared.k + offset, &p.k, origin, barriers.k_full[keys.stage()]);
      hopper::wait(barriers.v_empty[keys.stage()], keys.phase() ^ 1U);
      hopper::arrive_expecting(barriers.v_full[keys.stage()], Tile::kKeyBytes);
      hopper::copy_box(shared.v + offset, &p.v, origin, barriers.v_full[keys.stage()]);
      keys.advance();
    }
  }
}

// The 32 columns of one of the thread's rows that are seen, a bit each.
__device__ uint32_t seen_columns(const TileVisibility& visibility, int32_t b, int32_t query, int32_t key) {
  uint32_t seen = 0;
#pragma unroll 1
  for (int i = 0; i < 32; ++i)
    seen |= static_cast<uint32_t>(visibility.visible(b, query, key + i / 2 * 8 + i % 2)) << i;
  return seen;
}

// Scores that are hidden become so low that their weight is zero. `query` is that of the thread's first row, `key` that
// of its first column. Without `any_mask` a query sees a band of keys.
template <bool any_mask>
__device__ void hide(const TileVisibility& visibility, int32_t b, int32_t query, int32_t key, float (&scores)[64]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const TileMask& mask = visibility.mask;
    const int32_t row = query + 8 * half, last = visibility.shape.keys - 1;
    const int32_t high = (mask.causal != 0 && row < last ? row : last) - key;
    const int32_t low = (mask.window > 0 ? row - mask.window + 1 : 0) - key;
    const uint32_t columns = any_mask ? seen_columns(visibility, b, row, key) : 0U;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int32_t column = i / 2 * 8 + i % 2;
      const bool seen = any_mask ? (columns >> i & 1U) != 0 : column >= low && column <= high;
      float& score = scores[i / 2 * 4 + 2 * half + i % 2];
      score = seen ? score : -INFINITY;
    }
  }
}

// Of the thread's two rows: highest score so far, and its share of the sum of weights.
struct RowStatistics {
  float highest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0F, 0.0F};
};

// Scores become weights relative to the highest score so far; `factors` bring what was summed before to that.
__device__ void soften(float (&scores)[64], float scale, RowStatistics& rows, float (&factors)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float highest = rows.highest[half];
#pragma unroll
    for (int j = 0; j < 16; ++j)
      highest = fmaxf(highest, fmaxf(scores[4 * j + 2 * half], scores[4 * j + 2 * half + 1]));
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, 1));
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffU, highest, 2));
    const float shift = highest == -INFINITY ? 0.0F : highest * scale;  // else hidden - hidden is no number
    factors[half] = hopper::exp2(rows.highest[half] * scale - shift);
    rows.highest[half] = highest;
    float sum = 0.0F;
#pragma unroll
    for (int j = 0; j < 16; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& score = scores[4 * j + 2 * half + e];
        score = hopper::exp2(fmaf(score, scale, -shift));
        sum += score;
      }
    rows.sum[half] = rows.sum[half] * factors[half] + sum;
  }
}

// One row of the thread's sums, times `factor`, to a row of bf16 in global memory. Straight from registers: by way of
// shared memory it was slower (H200, 4096 tokens: 1.10 instead of 1.03 ms with heads of 128).
template <int pieces>
__device__ void store_row(const float (&sums)[pieces][32], int half, float factor, __nv_bfloat16* row) {
  uint32_t* words = reinterpret_cast<uint32_t*>(row) + threadIdx.x % 4;
#pragma unroll
  for (int piece = 0; piece < pieces; ++piece)
#pragma unroll
    for (int j = 0; j < 8; ++j)
      words[piece * 32 + j * 4] =
          hopper::pack(sums[piece][4 * j + 2 * half] * factor, sums[piece][4 * j + 2 * half + 1] * factor);
}

// One warpgroup and its 64 queries.
template <int dim, bool any_mask>
class Consumer {
  using Tile = ForwardTile<dim>;
  static constexpr int kPieces = dim / 64;

 public:
  __device__ Consumer(const AttentionTmaParams& p, const SharedMemory<dim>& shared, int index)
      : p_(p),
        visibility_(p.node.visibility),
        shared_(shared),
        barriers_(*shared.barriers),
        index_(index),
        thread_(static_cast<int>(threadIdx.x) % hopper::kWarpgroup) {}

  __device__ void run() {
    const AttentionShape& z = visibility_.shape;
    if (index_ == 0) hopper::arrive_at_barrier(turn_barrier(0), 2 * hopper::kWarpgroup);
    for (int32_t task = static_cast<int32_t>(blockIdx.x); task < task_count<dim>(z);
         task += static_cast<int32_t>(gridDim.x))
      attend(query_tile<dim>(z, task));
  }

 private:
  __device__ void attend(const QueryTile& tile) {
    float out[kPieces][32];
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
#pragma unroll
      for (int i = 0; i < 32; ++i) out[piece][i] = 0.0F;
    RowStatistics rows;
    KeyTiles<dim, any_mask> tiles(visibility_, tile);
    hopper::wait(barriers_.q_full, queries_.phase());
    bool more = tiles.next();
    // What only later queries of the tile see.
    for (; more && sees_nothing(tile, tiles); more = tiles.next()) pass();
    if (more) {
      float scores[64];
      uint32_t weights[8][4];
      float factors[2];
      take_turn();
      start_scores(scores);
      end_turn();
      hopper::wait_for_products<0>();
      hopper::pin(scores);
      release(barriers_.k_empty[keys_.stage()]);
      weigh(tile, tiles, scores, rows, factors);
      pack_operand(scores, weights);
      while (tiles.next()) {
        const Ring<Tile::kStages> last = keys_;
        keys_.advance();
        take_turn();
        start_scores(scores);
        hopper::wait(barriers_.v_full[last.stage()], last.phase());
        start_values(out, weights, last.stage());
        end_turn();
        hopper::wait_for_products<1>();
        hopper::pin(scores);
        release(barriers_.k_empty[keys_.stage()]);
        weigh(tile, tiles, scores, rows, factors);
        hopper::wait_for_products<0>();
        release(barriers_.v_empty[last.stage()]);
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          hopper::pin(out[piece]);
#pragma unroll
          for (int i = 0; i < 32; ++i) out[piece][i] *= factors[i / 2 % 2];
        }
        pack_operand(scores, weights);
      }
      release(barriers_.q_empty);
      hopper::wait(barriers_.v_full[keys_.stage()], keys_.phase());
      start_values(out, weights, keys_.stage());
      hopper::wait_for_products<0>();
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) hopper::pin(out[piece]);
      release(barriers_.v_empty[keys_.stage()]);
      keys_.advance();
    } else {
      release(barriers_.q_empty);
    }
    queries_.advance();
    finish(tile, rows, out);
  }

  // A tile of keys of which these queries see nothing.
  __device__ void pass() {
    take_turn();
    end_turn();
    hopper::wait(barriers_.k_full[keys_.stage()], keys_.phase());
    release(barriers_.k_empty[keys_.stage()]);
    hopper::wait(barriers_.v_full[keys_.stage()], keys_.phase());
    release(barriers_.v_empty[keys_.stage()]);
    keys_.advance();
  }

  __device__ static int turn_barrier(int consumer) { return 1 + consumer; }
  __device__ void take_turn() const { hopper::wait_at_barrier(turn_barrier(index_), 2 * hopper::kWarpgroup); }
  __device__ void end_turn() const {
    hopper::arrive_at_barrier(turn_barrier(index_ + 1 == Tile::kConsumers ? 0 : index_ + 1), 2 * hopper::kWarpgroup);
  }

  // Once for a warp, when all its threads are done.
  __device__ void release(Barrier& barrier) const {
    __syncwarp();
    if (thread_ % 32 == 0) hopper::arrive(barrier);
  }

  __device__ void start_scores(float (&scores)[64]) {
    hopper::wait(barriers_.k_full[keys_.stage()], keys_.phase());
    hopper::fence_products();
    const uint32_t q = shared_.q + static_cast<uint32_t>(index_ * 64 * hopper::kRowBytes);
    const uint32_t k = shared_.k + static_cast<uint32_t>(keys_.stage() * Tile::kKeyBytes);
#pragma unroll
    for (int step = 0; step < dim / 16; ++step) {
      const uint32_t piece = step / 4, column = step % 4 * 32;
      hopper::multiply<Along::summed, Along::summed>(
          scores, hopper::matrix(q + piece * (Tile::kQueries * hopper::kRowBytes) + column),
          hopper::matrix(k + piece * (Tile::kKeys * hopper::kRowBytes) + column), step > 0);
    }
    hopper::commit_products();
  }

  __device__ void start_values(float (&out)[kPieces][32], const uint32_t (&weights)[8][4], int stage) {
    const uint32_t v = shared_.v + static_cast<uint32_t>(stage * Tile::kKeyBytes);
    hopper::fence_products();
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
#pragma unroll
      for (int step = 0; step < 8; ++step)
        hopper::multiply_add<Along::across>(
            out[piece], weights[step],
            hopper::matrix(v + static_cast<uint32_t>(piece * Tile::kKeys * hopper::kRowBytes) +
                           static_cast<uint32_t>(step * 16 * hopper::kRowBytes)));
    hopper::commit_products();
  }

  __device__ TokenSpan own_queries(const QueryTile& tile) const {
    return span_of(tile.first + 64 * index_, 64, tile.end);
  }
  __device__ int32_t first_query(const QueryTile& tile) const { return tile.first + 64 * index_ + first_row(thread_); }

  __device__ bool sees_nothing(const QueryTile& tile, const KeyTiles<dim, any_mask>& tiles) const {
    const TokenSpan own = own_queries(tile);
    return own.begin >= own.end || tiles.cover(own) == TileCover::none;
  }

  __device__ void weigh(const QueryTile& tile, const KeyTiles<dim, any_mask>& tiles, float (&scores)[64],
                        RowStatistics& rows, float (&factors)[2]) const {
    if (tiles.cover(own_queries(tile)) != TileCover::all)
      hide<any_mask>(visibility_, tile.b, first_query(tile), tiles.first_key() + thread_ % 4 * 2, scores);
    soften(scores, visibility_.shape.scale * kLog2e, rows, factors);
  }

  __device__ void finish(const QueryTile& tile, const RowStatistics& rows, const float (&out)[kPieces][32]) const {
    const AttentionShape& z = visibility_.shape;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = rows.sum[half];
      sum += __shfl_xor_sync(0xffffffffU, sum, 1);
      sum += __shfl_xor_sync(0xffffffffU, sum, 2);
      const int32_t row = first_query(tile) + 8 * half;
      if (row >= tile.end) continue;
      const bool saw_any = sum != 0.0F;
      const float factor = saw_any ? 1.0F / sum : 1.0F;
      if (thread_ % 4 == 0)
        p_.node.lse[z.lse_at(tile.b, tile.head, row)] =
            saw_any ? fmaf(rows.highest[half], z.scale, logf(sum)) : kHiddenLse;
      store_row(out, half, factor, static_cast<__nv_bfloat16*>(p_.node.out) + z.query_at(tile.b, tile.head, row));
    }
  }

  const AttentionTmaParams& p_;
  const TileVisibility& visibility_;
  const SharedMemory<dim>& shared_;
  typename SharedMemory<dim>::Barriers& barriers_;
  int index_, thread_;
  Ring<Tile::kStages> keys_;
  Ring<1> queries_;
};

template <int dim, bool any_mask>
__device__ void attend_tiles(const AttentionTmaParams& p) {
  using Tile = ForwardTile<dim>;
  // What a block of threads starts with, 128 or 168 registers a thread, is all that its warpgroups may share.
  constexpr int kConsumerRegisters = Tile::kConsumers == 3 ? 160 : 232,
                kCopyRegisters = Tile::kConsumers == 3 ? 32 : 40;
  const SharedMemory<dim> shared;
  if (threadIdx.x == 0) shared.init_barriers();
  __syncthreads();
  const int warpgroup = hopper::uniform(static_cast<int>(threadIdx.x) / hopper::kWarpgroup);
  if (warpgroup == 0) {
    hopper::give_registers<kCopyRegisters>();
    if (threadIdx.x == 0) copy_tiles<dim, any_mask>(p, shared);
  } else {
    hopper::take_registers<kConsumerRegisters>();
    Consumer<dim, any_mask>(p, shared, warpgroup - 1).run();
  }
}

}  // namespace

#define MEGACPP_ATTENTION_WGMMA(name, dim, any_mask)                          \
  extern "C" __global__ void __launch_bounds__(ForwardTile<dim>::kThreads, 1) \
      attention_wgmma_##name(const __grid_constant__ AttentionTmaParams p) {  \
    attend_tiles<dim, any_mask>(p);                                           \
  }
MEGACPP_ATTENTION_WGMMA(band_64, 64, false)
MEGACPP_ATTENTION_WGMMA(band_128, 128, false)
MEGACPP_ATTENTION_WGMMA(any_64, 64, true)
MEGACPP_ATTENTION_WGMMA(any_128, 128, true)
#undef MEGACPP_ATTENTION_WGMMA

}  // namespace megacpp::runtime::cuda
