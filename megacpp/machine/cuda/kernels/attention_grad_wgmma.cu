// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper's tensor cores: bf16, head widths 64 and 128. A block of threads has 128 keys of one key
// head and goes through the tiles of queries that see them, head by head: dk and dv stay in registers. Scores are kept
// transposed, [key, query], so that weights and their cotangents are register operands of the products for dv and dk.
// dq of a tile goes to f32 sums in global memory, in a fixed order; the same bits come out every time.
#include "megacpp/machine/cuda/kernels/attention_wgmma.cuh"

namespace megacpp::runtime::cuda {
namespace {

using hopper::Along;
using hopper::Barrier;

constexpr int kConsumers = 2;
constexpr int kCopyWarp = 0, kSumWarp = 1;  // of the first warpgroup

template <int dim>
struct SharedMemory {
  using Tile = GradTile<dim>;

  struct Barriers {
    Barrier keys_full, sums_full[Tile::kStages], sums_empty[Tile::kStages];
    Barrier q_full[Tile::kStages], q_empty[Tile::kStages], dout_full[Tile::kStages], dout_empty[Tile::kStages];
    int32_t task;
  };
  static_assert(sizeof(Barriers) <= Tile::kBarrierBytes);

  uint32_t k, v, q, dout, scores;  // addresses; of the first stage
  float* sums;                     // [stages, warpgroup 2, 8, thread 128, 4]
  float* lse;                      // [stages, queries]
  float* delta;                    // [stages, queries]
  Barriers* barriers;

  __device__ SharedMemory() {
    uint8_t* memory = hopper::dynamic_shared();
    k = hopper::shared_address(memory);
    v = k + Tile::kKeyBytes;
    q = v + Tile::kKeyBytes;
    dout = q + Tile::kStages * Tile::kQueryBytes;
    scores = dout + Tile::kStages * Tile::kQueryBytes;
    const uint32_t end = scores + Tile::kStages * Tile::kScoreBytes;
    sums = reinterpret_cast<float*>(memory + (end - k));
    lse = sums + Tile::kStages * Tile::kSums;
    delta = lse + Tile::kStages * Tile::kQueries;
    barriers = reinterpret_cast<Barriers*>(delta + Tile::kStages * Tile::kQueries);
  }

  __device__ void init_barriers() const {
    constexpr int kWarps = 4 * kConsumers;
    hopper::init(barriers->keys_full, 1);
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      hopper::init(barriers->q_full[stage], 1);
      hopper::init(barriers->dout_full[stage], 1);
      hopper::init(barriers->q_empty[stage], kWarps);
      hopper::init(barriers->dout_empty[stage], kWarps);
      hopper::init(barriers->sums_full[stage], kWarps);
      hopper::init(barriers->sums_empty[stage], 1);
    }
    hopper::fence_inits();
  }
};

// A tile of keys of one key head.
struct KeyTile {
  int32_t b, kv_head, block;
};

// A causal mask leaves most work to the first keys: these come first.
template <int dim>
__device__ KeyTile key_tile(const AttentionGradTmaParams& p, int32_t task) {
  const AttentionShape& z = p.node.visibility.shape;
  const RowTiles tasks{z.batch * z.kv_heads, GradTile<dim>::key_tiles(z.keys), p.rows_together};
  const RowTile at = tasks.at(task);
  return {at.row / z.kv_heads, at.row % z.kv_heads, at.tile};
}

template <int dim>
__device__ TokenSpan query_span(const AttentionShape& z, int32_t block) {
  return span_of(block * GradTile<dim>::kQueries, GradTile<dim>::kQueries, z.queries);
}
template <int dim>
__device__ TokenSpan key_span(const AttentionShape& z, int32_t block) {
  return span_of(block * GradTile<dim>::kKeys, GradTile<dim>::kKeys, z.keys);
}

// The tiles of queries that see some of a tile of keys: by descending queries, each of all query heads of the group. In
// this order blocks of threads that began together come to a tile together, and wait little for their turn to add.
template <int dim, bool any_mask>
class QueryTiles {
 public:
  __device__ QueryTiles(const TileVisibility& visibility, const KeyTile& keys)
      : visibility_(visibility), keys_(keys), group_(visibility.shape.group()) {
    const TokenSpan span = key_span<dim>(visibility.shape, keys.block);
    const BlockRange blocks = visibility.query_blocks(span.begin, span.end, GradTile<dim>::kQueries);
    begin_ = blocks.begin;
    at_ = blocks.end;
  }

  __device__ bool next() {
    if (--heads_left_ > 0) return true;
    heads_left_ = group_;
    while (--at_ >= begin_)
      if (!any_mask || cover(key_span<dim>(visibility_.shape, keys_.block)) != TileCover::none) return true;
    return false;
  }
  __device__ int32_t head() const { return (keys_.kv_head + 1) * group_ - heads_left_; }
  __device__ int32_t block() const { return at_; }
  __device__ int32_t first_query() const { return at_ * GradTile<dim>::kQueries; }
  // Of the tile in [b, H, query tiles].
  __device__ int64_t index() const {
    const AttentionShape& z = visibility_.shape;
    return (static_cast<int64_t>(keys_.b) * z.heads + head()) * GradTile<dim>::query_tiles(z.queries) + at_;
  }
  // Of the current tile and some of the keys.
  __device__ TileCover cover(TokenSpan keys) const {
    return cover_of<any_mask>(visibility_, keys_.b, query_span<dim>(visibility_.shape, at_), keys);
  }

 private:
  const TileVisibility& visibility_;
  const KeyTile& keys_;
  int32_t group_, begin_, at_;
  int32_t heads_left_ = 0;
};

// One thread: copies what the other warpgroups read.
template <int dim, bool any_mask>
__device__ void copy_tiles(const AttentionGradTmaParams& p, const SharedMemory<dim>& shared, const KeyTile& keys) {
  using Tile = GradTile<dim>;
  auto& barriers = *shared.barriers;
  const hopper::BoxOrigin of_keys{{0, keys.kv_head, keys.block * Tile::kKeys, 0, keys.b}};
  hopper::arrive_expecting(barriers.keys_full, 2 * Tile::kKeyBytes);
  hopper::copy_box(shared.k, &p.k, of_keys, barriers.keys_full);
  hopper::copy_box(shared.v, &p.v, of_keys, barriers.keys_full);
  Ring<Tile::kStages> ring;
  for (QueryTiles<dim, any_mask> tiles(p.node.visibility, keys); tiles.next(); ring.advance()) {
    const hopper::BoxOrigin origin{{0, tiles.head(), tiles.first_query(), 0, keys.b}};
    const int64_t statistics = tiles.index() * Tile::kQueries;
    const uint32_t offset = static_cast<uint32_t>(ring.stage() * Tile::kQueryBytes);
    Barrier& q_full = barriers.q_full[ring.stage()];
    hopper::wait(barriers.q_empty[ring.stage()], ring.phase() ^ 1U);
    hopper::arrive_expecting(q_full, Tile::kQueryBytes + Tile::kStatisticBytes);
    hopper::copy_box(shared.q + offset, &p.q, origin, q_full);
    hopper::copy_bytes(hopper::shared_address(shared.lse + ring.stage() * Tile::kQueries), p.lse + statistics,
                       Tile::kStatisticBytes, q_full);
    Barrier& dout_full = barriers.dout_full[ring.stage()];
    hopper::wait(barriers.dout_empty[ring.stage()], ring.phase() ^ 1U);
    hopper::arrive_expecting(dout_full, Tile::kQueryBytes + Tile::kStatisticBytes);
    hopper::copy_box(shared.dout + offset, &p.dout, origin, dout_full);
    hopper::copy_bytes(hopper::shared_address(shared.delta + ring.stage() * Tile::kQueries), p.delta + statistics,
                       Tile::kStatisticBytes, dout_full);
  }
}

// How many tiles of earlier keys add to the query tile before this one does; asked by a whole warp.
template <int dim, bool any_mask>
__device__ int32_t turn_of(const TileVisibility& visibility, const KeyTile& keys, int32_t query_block) {
  const TokenSpan queries = query_span<dim>(visibility.shape, query_block);
  const BlockRange blocks = visibility.key_blocks(queries.begin, queries.end, GradTile<dim>::kKeys);
  if (!any_mask) return keys.block - blocks.begin;
  int32_t turn = 0;
  for (int32_t base = blocks.begin; base < keys.block; base += 32) {
    const int32_t block = base + static_cast<int32_t>(threadIdx.x % 32);
    const bool is_seen =
        block < keys.block &&
        cover_of<any_mask>(visibility, keys.b, queries, key_span<dim>(visibility.shape, block)) != TileCover::none;
    turn += __popc(__ballot_sync(0xffffffffU, is_seen));
  }
  return turn;
}

// One warp: adds the finished tiles of dq to the sums in global memory, each in its turn.
template <int dim, bool any_mask>
__device__ void add_sums(const AttentionGradTmaParams& p, const SharedMemory<dim>& shared, const KeyTile& keys) {
  using Tile = GradTile<dim>;
  auto& barriers = *shared.barriers;
  Ring<Tile::kStages> ring;
  for (QueryTiles<dim, any_mask> tiles(p.node.visibility, keys); tiles.next(); ring.advance()) {
    const int32_t turn = turn_of<dim, any_mask>(p.node.visibility, keys, tiles.block());
    if (threadIdx.x % 32 == 0) {
      float* to = p.dq_sums + tiles.index() * Tile::kSums;
      const uint32_t from = hopper::shared_address(shared.sums + ring.stage() * Tile::kSums);
      hopper::wait(barriers.sums_full[ring.stage()], ring.phase());
      hopper::wait_for_count(p.turns + tiles.index(), turn);
      hopper::fence_global();
      if (turn == 0)
        hopper::write_bytes(to, from, Tile::kSums * 4);
      else
        hopper::add_floats(to, from, Tile::kSums * 4);
      hopper::commit_writes();
      hopper::wait_for_reads();
      hopper::arrive(barriers.sums_empty[ring.stage()]);
      hopper::wait_for_writes();
      hopper::fence_global();
      hopper::count_up(p.turns + tiles.index());
    }
    __syncwarp();
  }
}

// The columns of one of the thread's rows that see it, a bit each.
template <int columns>
__device__ uint32_t seeing_columns(const TileVisibility& visibility, int32_t b, int32_t query, int32_t key) {
  uint32_t seeing = 0;
#pragma unroll 1
  for (int i = 0; i < columns / 4; ++i)
    seeing |= static_cast<uint32_t>(visibility.visible(b, query + i / 2 * 8 + i % 2, key)) << i;
  return seeing;
}

// Scores that are hidden become so low that their weight is zero. Of a thread's two rows, either a bit says for each
// column whether it is seen, or a band of queries sees it: `key` is that of the first row, `query` that of the first
// column.
template <int n>
__device__ void hide_unseen(const uint32_t (&seen)[2], float (&scores)[n]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      float& score = scores[i / 2 * 4 + 2 * half + i % 2];
      score = (seen[half] >> i & 1U) != 0 ? score : -INFINITY;
    }
}
template <int n>
__device__ void hide_outside_band(const TileVisibility& visibility, int32_t query, int32_t key, float (&scores)[n]) {
  const TileMask& mask = visibility.mask;
  const int32_t queries = visibility.shape.queries;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t row = key + 8 * half;
    const int32_t low = (mask.causal != 0 ? row : 0) - query;
    const int32_t last = mask.window > 0 && mask.window < queries ? row + mask.window - 1 : queries;
    const int32_t high = row < visibility.shape.keys ? last - query : -1;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const int32_t column = i / 2 * 8 + i % 2;
      float& score = scores[i / 2 * 4 + 2 * half + i % 2];
      score = column >= low && column <= high ? score : -INFINITY;
    }
  }
}

// One warpgroup and its 64 keys.
template <int dim, bool any_mask>
class Consumer {
  using Tile = GradTile<dim>;
  static constexpr int kPieces = dim / 64;
  static constexpr int kScores = Tile::kQueries / 2;  // of a thread
  static constexpr int kQuerySteps = Tile::kQueries / 16;
  static constexpr int kRowBytes = hopper::kRowBytes;

 public:
  __device__ Consumer(const AttentionGradTmaParams& p, const SharedMemory<dim>& shared, const KeyTile& keys, int index)
      : p_(p),
        visibility_(p.node.visibility),
        shared_(shared),
        barriers_(*shared.barriers),
        keys_(keys),
        index_(index),
        thread_(static_cast<int>(threadIdx.x) % hopper::kWarpgroup) {}

  __device__ void run() {
    float dk[kPieces][32], dv[kPieces][32];
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
#pragma unroll
      for (int i = 0; i < 32; ++i) dk[piece][i] = dv[piece][i] = 0.0F;
    hopper::wait(barriers_.keys_full, 0);
    for (QueryTiles<dim, any_mask> tiles(visibility_, keys_); tiles.next(); ring_.advance()) {
      uint32_t weights[kQuerySteps][4], cotangents[kQuerySteps][4];
      weigh(tiles, weights, cotangents);
      start_products(dv, weights, stage_of(shared_.dout));
      share(cotangents);
      float dq[32];
      start_queries(dq);
      start_products(dk, cotangents, stage_of(shared_.q));
      hopper::wait_for_products<2>();
      release(barriers_.dout_empty[ring_.stage()]);
      hopper::wait_for_products<1>();
      hopper::pin(dq);
      give_sums(dq);
      hopper::wait_for_products<0>();
      release(barriers_.q_empty[ring_.stage()]);
    }
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      hopper::pin(dk[piece]);
      hopper::pin(dv[piece]);
    }
    finish(visibility_.shape.scale, dk, static_cast<__nv_bfloat16*>(p_.node.dk));
    finish(1.0F, dv, static_cast<__nv_bfloat16*>(p_.node.dv));
  }

 private:
  __device__ uint32_t stage_of(uint32_t first) const {
    return first + static_cast<uint32_t>(ring_.stage() * Tile::kQueryBytes);
  }

  // Once for a warp, when all its threads are done.
  __device__ void release(Barrier& barrier) const {
    __syncwarp();
    if (thread_ % 32 == 0) hopper::arrive(barrier);
  }

  // sums = own rows of `keys` . `queries`^T.
  __device__ void start_scores(float (&sums)[kScores], uint32_t keys, uint32_t queries) const {
    const uint32_t own = keys + static_cast<uint32_t>(index_ * 64 * kRowBytes);
    hopper::fence_products();
#pragma unroll
    for (int step = 0; step < dim / 16; ++step) {
      const uint32_t piece = step / 4, column = step % 4 * 32;
      hopper::multiply<Along::summed, Along::summed>(
          sums, hopper::matrix(own + piece * (Tile::kKeys * kRowBytes) + column),
          hopper::matrix(queries + piece * (Tile::kQueries * kRowBytes) + column), step > 0);
    }
    hopper::commit_products();
  }

  // Weights p = exp(scale q k^T - lse), and ds = p (dout v^T - delta) before scaling, both transposed.
  __device__ void weigh(const QueryTiles<dim, any_mask>& tiles, uint32_t (&weights)[kQuerySteps][4],
                        uint32_t (&cotangents)[kQuerySteps][4]) const {
    float scores[kScores], changes[kScores];
    const int32_t query = tiles.first_query() + thread_ % 4 * 2, key = first_key() + first_row(thread_);
    const bool masked = is_masked(tiles);
    uint32_t seen[2];
    if (any_mask && masked)
      for (int half = 0; half < 2; ++half)
        seen[half] = seeing_columns<Tile::kQueries>(visibility_, keys_.b, query, key + 8 * half);
    hopper::wait(barriers_.q_full[ring_.stage()], ring_.phase());
    start_scores(scores, shared_.k, stage_of(shared_.q));
    hopper::wait(barriers_.dout_full[ring_.stage()], ring_.phase());
    start_scores(changes, shared_.v, stage_of(shared_.dout));
    hopper::wait_for_products<1>();
    hopper::pin(scores);
    if (any_mask && masked) hide_unseen(seen, scores);
    if (!any_mask && masked) hide_outside_band(visibility_, query, key, scores);
    const float scale = visibility_.shape.scale * kLog2e;
    const float2* lse = statistics(shared_.lse);
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
      const float2 shift = lse[4 * j];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* pair = scores + 4 * j + 2 * half;
        pair[0] = hopper::exp2(fmaf(pair[0], scale, -shift.x));
        pair[1] = hopper::exp2(fmaf(pair[1], scale, -shift.y));
      }
    }
    pack_operand(scores, weights);
    hopper::wait_for_products<0>();
    hopper::pin(changes);
    const float2* delta = statistics(shared_.delta);
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
      const float2 shift = delta[4 * j];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = 4 * j + 2 * half;
        changes[at] = scores[at] * (changes[at] - shift.x);
        changes[at + 1] = scores[at + 1] * (changes[at + 1] - shift.y);
      }
    }
    pack_operand(changes, cotangents);
  }

  __device__ int32_t first_key() const { return keys_.block * Tile::kKeys + 64 * index_; }

  // Whether some pair of own keys and the tile of queries is hidden; keys past the end are.
  __device__ bool is_masked(const QueryTiles<dim, any_mask>& tiles) const {
    const TokenSpan own{first_key(), first_key() + 64};
    return own.end > visibility_.shape.keys || tiles.cover(own) != TileCover::all;
  }

  // Of the thread's first columns; the next ones are four further each.
  __device__ const float2* statistics(const float* rows) const {
    return reinterpret_cast<const float2*>(rows + ring_.stage() * Tile::kQueries) + thread_ % 4;
  }

  // sums += weights . rows of queries.
  __device__ void start_products(float (&sums)[kPieces][32], const uint32_t (&weights)[kQuerySteps][4],
                                 uint32_t queries) const {
    hopper::fence_products();
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
#pragma unroll
      for (int step = 0; step < kQuerySteps; ++step)
        hopper::multiply_add<Along::across>(
            sums[piece], weights[step],
            hopper::matrix(queries + static_cast<uint32_t>((piece * Tile::kQueries + step * 16) * kRowBytes)));
    hopper::commit_products();
  }

  __device__ uint32_t score_buffer() const {
    return shared_.scores + static_cast<uint32_t>(ring_.stage() * Tile::kScoreBytes);
  }

  // Writes the cotangents of own scores to shared memory, [64 queries of a piece, key, query], for both warpgroups.
  __device__ void share(const uint32_t (&cotangents)[kQuerySteps][4]) const {
    const int lane = thread_ % 32, row = index_ * 64 + thread_ / 32 * 16 + lane % 16;
#pragma unroll
    for (int step = 0; step < kQuerySteps; ++step) {
      const int column = step * 16 + lane / 16 * 8;
      const int piece = column / 64, chunk = column % 64 / 8;
      const int offset = piece * Tile::kKeys * kRowBytes + row * kRowBytes + (chunk ^ row % 8) * 16;
      hopper::write_matrices(score_buffer() + static_cast<uint32_t>(offset), cotangents[step]);
    }
    hopper::fence_shared();
    hopper::wait_at_barrier(1, kConsumers * hopper::kWarpgroup);
  }

  // dq of 64 queries and 64 columns: the warpgroups share the queries, or the columns where there are 128.
  __device__ void start_queries(float (&dq)[32]) const {
    const uint32_t piece = static_cast<uint32_t>(index_ * Tile::kKeys * kRowBytes);
    const uint32_t scores = score_buffer() + (kPieces == 1 ? piece : 0U),
                   keys = shared_.k + (kPieces == 1 ? 0U : piece);
    hopper::fence_products();
#pragma unroll
    for (uint32_t step = 0; step < Tile::kKeys / 16; ++step)
      hopper::multiply<Along::across, Along::across>(dq, hopper::matrix(scores + step * 16 * kRowBytes),
                                                     hopper::matrix(keys + step * 16 * kRowBytes), step > 0);
    hopper::commit_products();
  }

  __device__ void give_sums(const float (&dq)[32]) const {
    float* sums = shared_.sums + ring_.stage() * Tile::kSums;
    float4* to = reinterpret_cast<float4*>(sums + index_ * (Tile::kSums / kConsumers)) + thread_;
    hopper::wait(barriers_.sums_empty[ring_.stage()], ring_.phase() ^ 1U);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      to[i * hopper::kWarpgroup] = float4{dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
    hopper::fence_shared();
    release(barriers_.sums_full[ring_.stage()]);
  }

  // Own rows of values are where results are gathered: only own products read them, and these are done.
  __device__ void finish(float factor, const float (&sums)[kPieces][32], __nv_bfloat16* to) const {
    const AttentionShape& z = visibility_.shape;
    const int32_t row = index_ * 64 + thread_ / 32 * 16, key = keys_.block * Tile::kKeys + row;
    const float factors[2] = {factor, factor};
    store_rows(sums, factors,
               {.staging = shared_.v + static_cast<uint32_t>(row * kRowBytes),
                .piece_bytes = Tile::kKeys * kRowBytes,
                .to = to + z.key_at(keys_.b, keys_.kv_head, key),
                .stride = static_cast<int64_t>(z.kv_heads) * dim,
                .rows = z.keys - key});
  }

  const AttentionGradTmaParams& p_;
  const TileVisibility& visibility_;
  const SharedMemory<dim>& shared_;
  typename SharedMemory<dim>::Barriers& barriers_;
  const KeyTile& keys_;
  int index_, thread_;
  Ring<Tile::kStages> ring_;  // of queries, cotangents and scores
};

template <int dim, bool any_mask>
__device__ void go_back(const AttentionGradTmaParams& p) {
  const SharedMemory<dim> shared;
  if (threadIdx.x == 0) {
    shared.init_barriers();
    shared.barriers->task = atomicAdd(p.ticket, 1);
  }
  __syncthreads();
  const KeyTile keys = key_tile<dim>(p, shared.barriers->task);
  const int warp = hopper::uniform(static_cast<int>(threadIdx.x) / 32);
  // 168 registers a thread are what the block starts with, and all that its warpgroups may share.
  if (warp < 4) {
    hopper::give_registers<any_mask ? 56 : 40>();
    if (warp == kCopyWarp && threadIdx.x % 32 == 0) copy_tiles<dim, any_mask>(p, shared, keys);
    if (warp == kSumWarp) add_sums<dim, any_mask>(p, shared, keys);
  } else {
    hopper::take_registers<any_mask ? 224 : 232>();
    Consumer<dim, any_mask>(p, shared, keys, warp / 4 - 1).run();
  }
}

// Rows [b, query tiles x queries of a tile, H], those past the end too: 8 columns to a thread. Counters become zero.
template <int dim>
__device__ void prepare_rows(const AttentionGradTmaParams& p) {
  using Tile = GradTile<dim>;
  constexpr int kRowThreads = dim / 8;
  const AttentionShape& z = p.node.visibility.shape;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int32_t tiles = Tile::query_tiles(z.queries), padded = tiles * Tile::kQueries;
  if (thread == 0) *p.ticket = 0;
  if (thread < static_cast<int64_t>(z.batch) * z.heads * tiles) p.turns[thread] = 0;
  const int64_t row = thread / kRowThreads, token = row / z.heads;
  const int32_t head = static_cast<int32_t>(row % z.heads), b = static_cast<int32_t>(token / padded);
  const int32_t query = static_cast<int32_t>(token % padded);
  const bool inside = b < z.batch && query < z.queries;
  float sum = 0.0F;
  if (inside) {
    const int64_t at = z.query_at(b, head, query) / 8 + thread % kRowThreads;
    const uint4 out = static_cast<const uint4*>(p.node.out)[at], dout = static_cast<const uint4*>(p.node.dout)[at];
    const uint32_t a[4] = {out.x, out.y, out.z, out.w}, g[4] = {dout.x, dout.y, dout.z, dout.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum = fmaf(__uint_as_float(a[i] << 16), __uint_as_float(g[i] << 16), sum);
      sum = fmaf(__uint_as_float(a[i] & 0xffff0000U), __uint_as_float(g[i] & 0xffff0000U), sum);
    }
  }
#pragma unroll
  for (int distance = kRowThreads / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, distance);
  if (b >= z.batch || thread % kRowThreads != 0) return;
  const float lse = inside ? p.node.lse[z.lse_at(b, head, query)] : kHiddenLse;
  const int64_t to = (static_cast<int64_t>(b) * z.heads + head) * padded + query;
  p.lse[to] = lse == kHiddenLse ? INFINITY : lse * kLog2e;
  p.delta[to] = sum;
}

// dq from its sums: a thread has eight columns of two rows.
template <int dim>
__device__ void finish_queries(const AttentionGradTmaParams& p) {
  using Tile = GradTile<dim>;
  constexpr int kTileThreads = Tile::kSums / 16;
  const AttentionShape& z = p.node.visibility.shape;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, tile = thread / kTileThreads;
  const int32_t tiles = Tile::query_tiles(z.queries);
  if (tile >= static_cast<int64_t>(z.batch) * z.heads * tiles) return;
  const int32_t group = static_cast<int32_t>(thread % 8), quad = static_cast<int32_t>(thread / 8 % 32);
  const int32_t warpgroup = static_cast<int32_t>(thread / 256 % 2);
  float4 sums[4] = {};
  if (p.turns[tile] > 0) {
    const float4* from = reinterpret_cast<const float4*>(p.dq_sums + tile * Tile::kSums) + warpgroup * 1024 +
                         group * hopper::kWarpgroup + quad * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = from[i];
  }
  const int64_t row = tile / tiles;
  const int32_t head = static_cast<int32_t>(row % z.heads), b = static_cast<int32_t>(row / z.heads);
  const int32_t query =
      static_cast<int32_t>(tile % tiles) * Tile::kQueries + (dim == 64 ? warpgroup * 64 : 0) + quad / 8 * 16 + quad % 8;
  const int32_t column = (dim == 64 ? 0 : warpgroup * 64) + group * 8;
  uint32_t first[4], second[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first[i] = hopper::pack(sums[i].x * z.scale, sums[i].y * z.scale);
    second[i] = hopper::pack(sums[i].z * z.scale, sums[i].w * z.scale);
  }
  __nv_bfloat16* dq = static_cast<__nv_bfloat16*>(p.node.dq);
  if (query < z.queries)
    *reinterpret_cast<uint4*>(dq + z.query_at(b, head, query) + column) = uint4{first[0], first[1], first[2], first[3]};
  if (query + 8 < z.queries)
    *reinterpret_cast<uint4*>(dq + z.query_at(b, head, query + 8) + column) =
        uint4{second[0], second[1], second[2], second[3]};
}

}  // namespace

#define MEGACPP_ATTENTION_GRAD_WGMMA(name, threads, body)                             \
  extern "C" __global__ void __launch_bounds__(threads, 1)                            \
      attention_grad_wgmma_##name(const __grid_constant__ AttentionGradTmaParams p) { \
    body(p);                                                                          \
  }
MEGACPP_ATTENTION_GRAD_WGMMA(band_64, GradTile<64>::kThreads, (go_back<64, false>))
MEGACPP_ATTENTION_GRAD_WGMMA(band_128, GradTile<128>::kThreads, (go_back<128, false>))
MEGACPP_ATTENTION_GRAD_WGMMA(any_64, GradTile<64>::kThreads, (go_back<64, true>))
MEGACPP_ATTENTION_GRAD_WGMMA(any_128, GradTile<128>::kThreads, (go_back<128, true>))
MEGACPP_ATTENTION_GRAD_WGMMA(rows_64, 256, prepare_rows<64>)
MEGACPP_ATTENTION_GRAD_WGMMA(rows_128, 256, prepare_rows<128>)
MEGACPP_ATTENTION_GRAD_WGMMA(queries_64, 256, finish_queries<64>)
MEGACPP_ATTENTION_GRAD_WGMMA(queries_128, 256, finish_queries<128>)
#undef MEGACPP_ATTENTION_GRAD_WGMMA

}  // namespace megacpp::runtime::cuda
