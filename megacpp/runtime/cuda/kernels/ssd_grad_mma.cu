// SPDX-License-Identifier: Apache-2.0
// The gradient of ssd by tensor cores, in two kernels. The first walks each head through its sequence, forwards and
// backwards at once, and keeps its states between chunks and their cotangents as bf16. The second takes every chunk of
// every group by itself, head after head, so that dB and dC are summed in registers.
#include "megacpp/runtime/cuda/kernels/ssd_walk.cuh"

namespace megacpp::runtime::cuda {
namespace {

// ---- States

struct StatesShared {
  uint16_t rows[2][kSsdChunk * kSsdState];      // B or C
  uint16_t values[2][kSsdChunk * kSsdHeadDim];  // x or dy
  uint16_t state[kSsdHeadDim * kSsdState];
  Decays decays[2];
};
static_assert(sizeof(StatesShared) == kSsdStatesSharedBytes);

// Where a kept state stands.
__device__ GlobalRows kept_state(const SsdSizes& z, uint64_t states, const ChunkPlace& at) {
  const int64_t index = (at.batch * z.heads + at.head) * chunks_of(z) + at.chunk;
  return {reinterpret_cast<uint16_t*>(states) + index * kSsdHeadDim * kSsdState, kSsdState, kSsdHeadDim};
}

// One direction of a walk: forwards x and B make the states, backwards dy and C their cotangents.
struct StatesWalk {
  const SsdStatesParams& p;
  HeadBlock at;
  bool is_backward;

  __device__ ChunkPlace place(int64_t step) const {
    return {at.batch, at.head, is_backward ? chunks_of(p.forward.sizes) - 1 - step : step};
  }

  __device__ void start_copies(int64_t step, StatesShared& s) const {
    constexpr int kThreads = kSsdHeadWarps * 32;
    const SsdSizes& z = p.forward.sizes;
    const ChunkPlace to = place(step);
    const int buffer = static_cast<int>(step % 2), thread = static_cast<int>(threadIdx.x);
    start_copying(group_rows(z, is_backward ? p.forward.c : p.forward.b, at.batch, at.group, to.chunk),
                  SharedTile<kSsdState>{s.rows[buffer]}, thread, kThreads);
    start_copying(head_rows(z, is_backward ? p.forward.y : p.forward.x, to), SharedTile<kSsdHeadDim>{s.values[buffer]},
                  thread, kThreads);
  }
};

__device__ void keep_states(const SsdStatesParams& p) {
  extern __shared__ char shared[];
  StatesShared& s = *reinterpret_cast<StatesShared*>(shared);
  const StatesWalk walk = {p, head_block<1>(p.forward.sizes, blockIdx.x / 2), blockIdx.x % 2 == 1};
  const int warp = static_cast<int>(threadIdx.x) / 32, row = warp * 16;
  const int64_t chunks = chunks_of(p.forward.sizes);
  const SharedTile<kSsdState> state_tile = {s.state};
  StateRows state = {};
  walk.start_copies(0, s);
  if (warp == 0) fill_decays(p.forward, walk.place(0), s.decays[0]);
  for (int64_t step = 0; step < chunks; ++step) {
    const int buffer = static_cast<int>(step % 2);
    store_sums(state, state_tile, row, 0);
    __syncwarp();
    write_rows<kSsdState / 8>(state_tile, row, 0,
                              kept_state(p.forward.sizes, walk.is_backward ? p.dstates : p.states, walk.place(step)));
    if (step + 1 == chunks) break;
    wait_for_copies();
    __syncthreads();  // this chunk is there; nobody reads the one before any more
    walk.start_copies(step + 1, s);
    if (warp == 0) fill_decays(p.forward, walk.place(step + 1), s.decays[1 - buffer]);
    const Decays& decays = s.decays[buffer];
    advance_state(state, row, decays.whole(), walk.is_backward ? decays.from_start : decays.added, {s.values[buffer]},
                  {s.rows[buffer]});
  }
}

// ---- Chunks

constexpr int kHalves = 2;  // of the columns: two warps share 16 rows
constexpr int kChunkThreads = kSsdChunkWarps * 32;
static_assert(kSsdChunkWarps == kSsdHeadWarps * kHalves);

// What warps sum about the positions of one head; those of several warps are added at the end.
struct PositionSums {
  float in[kHalves][kSsdChunk];            // x through the state at the chunk's end, before dt
  float out[kHalves][kSsdChunk];           // y through the state at its start
  float row[kHalves][kSsdChunk];           // pairs that a position reads, but itself
  float column[kSsdHeadWarps][kSsdChunk];  // pairs that read it
  float through_x[kHalves][kSsdChunk];     // x times dx before dt
  float over[kSsdChunkWarps];              // state times its cotangent, over the chunk
};

struct HeadTiles {
  uint16_t x[kSsdChunk * kSsdHeadDim], dy[kSsdChunk * kSsdHeadDim];
  uint16_t state[kSsdHeadDim * kSsdState], dstate[kSsdHeadDim * kSsdState];  // at the chunk's start; its end
};

struct ChunksShared {
  uint16_t b[kSsdChunk * kSsdState], c[kSsdChunk * kSsdState];
  HeadTiles heads[2];
  uint16_t pairs[kSsdChunk * kSsdChunk];  // [i, j]
  uint16_t dx[kSsdChunk * kSsdHeadDim];
  Decays decays[3];  // of the head before, this one and the next
  PositionSums sums[2];
};
static_assert(sizeof(ChunksShared) == kSsdChunksSharedBytes);

__device__ float sum_over_columns(float value) {  // of a fragment's row
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

__device__ float sum_over_rows(float value) {  // of a fragment's column
  for (int lanes = 4; lanes < 32; lanes *= 2) value += __shfl_xor_sync(0xffffffffU, value, lanes);
  return value;
}

__device__ float dot_of_pair(uint32_t pair, float low, float high) {
  return fmaf(low_of(pair), low, high_of(pair) * high);
}

// Each row of the sums times the row of the tile below it, from (row, column); to[row] by the lanes of column 0.
template <int kTiles, int kColumns>
__device__ void dot_rows(const float (&sums)[kTiles][4], const SharedTile<kColumns>& tile, int row, int column,
                         float* to) {
  float above = 0.0F, below = 0.0F;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int at = column + n * 8 + fragment_column();
    above += dot_of_pair(tile.pair(row + fragment_row(), at), sums[n][0], sums[n][1]);
    below += dot_of_pair(tile.pair(row + fragment_row() + 8, at), sums[n][2], sums[n][3]);
  }
  above = sum_over_columns(above), below = sum_over_columns(below);
  if (fragment_column() != 0) return;
  to[row + fragment_row()] = above;
  to[row + fragment_row() + 8] = below;
}

template <int kTiles>
__device__ void scale_rows(float (&sums)[kTiles][4], const float* factors, int row) {
  const float above = factors[row + fragment_row()], below = factors[row + fragment_row() + 8];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) sums[n][0] *= above, sums[n][1] *= above, sums[n][2] *= below, sums[n][3] *= below;
}

// The part of every product that a warp takes: 16 rows, and one half of the columns.
struct Part {
  int row, half;

  __device__ int column(int columns) const { return half * (columns / kHalves); }
};

using PairSums = float[kSsdChunk / kHalves / 8][4];        // [i, j]
using PositionRows = float[kSsdHeadDim / kHalves / 8][4];  // [j, p]
using ProjectionRows = float[kSsdState / kHalves / 8][4];  // [i or j, n]

// sums += left [row.., k] right^T, both as they stand: [rows, k] and [columns, k].
template <int kTiles, int kDepth>
__device__ void multiply_rows(const SharedTile<kDepth>& left, const SharedTile<kDepth>& right, int row, int column,
                              float (&sums)[kTiles][4]) {
#pragma unroll 2
  for (int k = 0; k < kDepth; k += 16) {
    uint32_t a[4];
    load_left(left, row, k, a);
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      uint32_t b[4];
      load_right(right, column + n * 16, k, b);
      multiply_add_pair(sums[2 * n], sums[2 * n + 1], a, b);
    }
  }
}

// sums += left [row.., k] right [k, columns..]
template <int kTiles, int kDepth, int kColumns>
__device__ void multiply_columns(const SharedTile<kDepth>& left, const SharedTile<kColumns>& right, int row, int column,
                                 float (&sums)[kTiles][4]) {
#pragma unroll 2
  for (int k = 0; k < kDepth; k += 16) {
    uint32_t a[4];
    load_left(left, row, k, a);
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      uint32_t b[4];
      load_right_transposed(right, column + n * 16, k, b);
      multiply_add_pair(sums[2 * n], sums[2 * n + 1], a, b);
    }
  }
}

// A chunk of a group. Warps walk its heads together.
class ChunkRun {
 public:
  __device__ ChunkRun(const SsdChunksParams& p, ChunksShared& s) : p_(p), f_(p.states.forward), s_(s) {
    const SsdSizes& z = f_.sizes;
    const int64_t chunks = chunks_of(z), index = blockIdx.x;
    group_ = index % z.groups;
    at_ = {index / z.groups / chunks, group_ * (z.heads / z.groups), index / z.groups % chunks};
    warp_ = static_cast<int>(threadIdx.x) / 32;
    const int half = warp_ / kSsdHeadWarps, place = warp_ % kSsdHeadWarps;
    part_ = {(half == 0 ? place : kSsdHeadWarps - 1 - place) * 16,
             half};  // as in ssd_mma.cu: later rows have more to do
  }

  __device__ void run() {
    const SsdSizes& z = f_.sizes;
    const int heads = static_cast<int>(z.heads / z.groups), thread = static_cast<int>(threadIdx.x);
    start_copying(group_rows(z, f_.b, at_.batch, group_, at_.chunk), b_tile(), thread, kChunkThreads);
    start_copying(group_rows(z, f_.c, at_.batch, group_, at_.chunk), c_tile(), thread, kChunkThreads);
    start_head(0);
    for (int h = 0; h < heads; ++h) {
      wait_for_copies();
      __syncthreads();  // this head is there; nobody reads the one before any more
      if (h + 1 < heads) start_head(h + 1);
      if (h == 0) multiply_rows(c_tile(), b_tile(), part_.row, part_.column(kSsdChunk), scores_);
      if (h > 0 && warp_ == h % kSsdChunkWarps) finish(h - 1);
      head(h);
    }
    __syncthreads();
    if (warp_ == 0) finish(heads - 1);
    projections();
  }

 private:
  __device__ SharedTile<kSsdState> b_tile() const { return {s_.b}; }
  __device__ SharedTile<kSsdState> c_tile() const { return {s_.c}; }
  __device__ SharedTile<kSsdChunk> pairs_tile() const { return {s_.pairs}; }
  __device__ ChunkPlace place(int h) const { return {at_.batch, at_.head + h, at_.chunk}; }

  __device__ void start_head(int h) {
    HeadTiles& tiles = s_.heads[h % 2];
    const int thread = static_cast<int>(threadIdx.x);
    const SsdSizes& z = f_.sizes;
    start_copying(head_rows(z, f_.x, place(h)), SharedTile<kSsdHeadDim>{tiles.x}, thread, kChunkThreads);
    start_copying(head_rows(z, f_.y, place(h)), SharedTile<kSsdHeadDim>{tiles.dy}, thread, kChunkThreads);
    start_copying(kept_state(z, p_.states.states, place(h)), SharedTile<kSsdState>{tiles.state}, thread, kChunkThreads);
    start_copying(kept_state(z, p_.states.dstates, place(h)), SharedTile<kSsdState>{tiles.dstate}, thread,
                  kChunkThreads);
    if (warp_ == (h + kSsdHeadWarps) % kSsdChunkWarps) fill_decays(f_, place(h), s_.decays[h % 3]);
  }

  __device__ void head(int h) {
    HeadTiles& tiles = s_.heads[h % 2];
    const SharedTile<kSsdHeadDim> x = {tiles.x}, dy = {tiles.dy};
    const Decays& decays = s_.decays[h % 3];
    PositionSums& sums = s_.sums[h % 2];
    const int row = part_.row, half = part_.half;
    meet_pairs(x, dy, decays, sums);
    through_states(tiles, decays, sums);
    sum_over(tiles, sums);
    // dx over dt, first through the state at the chunk's end.
    PositionRows dx = {};
    multiply_rows(b_tile(), {tiles.dstate}, row, part_.column(kSsdHeadDim), dx);
    scale_rows(dx, decays.to_end, row);
    dot_rows(dx, x, row, part_.column(kSsdHeadDim), sums.in[half]);
    __syncthreads();  // all pairs are in their tile
    for (int i = row; i < kSsdChunk; i += 16) {
      uint32_t a[4];
      load_left_transposed(pairs_tile(), row, i, a);
#pragma unroll
      for (int n = 0; n < kSsdHeadDim / kHalves / 16; ++n) {
        uint32_t b[4];
        load_right_transposed(dy, part_.column(kSsdHeadDim) + n * 16, i, b);
        multiply_add_pair(dx[2 * n], dx[2 * n + 1], a, b);
      }
    }
    dot_rows(dx, x, row, part_.column(kSsdHeadDim), sums.through_x[half]);
    scale_rows(dx, decays.dt, row);
    const SharedTile<kSsdHeadDim> dx_tile = {s_.dx};
    store_sums(dx, dx_tile, row, part_.column(kSsdHeadDim));
    __syncwarp();
    write_rows<kSsdHeadDim / kHalves / 8>(dx_tile, row, part_.column(kSsdHeadDim) / 8,
                                          head_rows(f_.sizes, p_.dx, place(h)));
    __syncwarp();
  }

  // Pairs of positions: what dx reads goes to the tile of pairs, what dB and dC read is summed over the heads.
  __device__ void meet_pairs(const SharedTile<kSsdHeadDim>& x, const SharedTile<kSsdHeadDim>& dy, const Decays& decays,
                             PositionSums& sums) {
    const int first = part_.column(kSsdChunk), i = part_.row + fragment_row();
    const bool is_causal = first <= part_.row + 15;
    PairSums products = {};
    if (is_causal) multiply_rows(dy, x, part_.row, first, products);
    float above = 0.0F, below = 0.0F;
#pragma unroll
    for (int n = 0; n < kSsdChunk / kHalves / 8; ++n) {
      const int j = first + n * 8 + fragment_column();
      float columns[2] = {}, mixing[4] = {};
      if (is_causal) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int to = i + e / 2 * 8, from = j + e % 2;
          const float decay = decays.between(to, from), dscore = products[n][e] * decay * decays.dt[from];
          const float term = to == from ? 0.0F : scores_[n][e] * dscore;
          mixing[e] = scores_[n][e] * decay;
          dscores_[n][e] += dscore;
          columns[e % 2] += term;
          (e < 2 ? above : below) += term;
        }
        pairs_tile().pair(i, j) = to_bf16_pair(mixing[0], mixing[1]);
        pairs_tile().pair(i + 8, j) = to_bf16_pair(mixing[2], mixing[3]);
      }
      const float low = sum_over_rows(columns[0]), high = sum_over_rows(columns[1]);
      if (fragment_row() == 0) {
        sums.column[part_.row / 16][j] = low;
        sums.column[part_.row / 16][j + 1] = high;
      }
    }
    above = sum_over_columns(above), below = sum_over_columns(below);
    if (fragment_column() != 0) return;
    sums.row[part_.half][i] = above;
    sums.row[part_.half][i + 8] = below;
  }

  // dC through the state at the chunk's start, dB through the one at its end.
  __device__ void through_states(HeadTiles& tiles, const Decays& decays, PositionSums& sums) {
    const SharedTile<kSsdHeadDim> x = {tiles.x}, dy = {tiles.dy};
    const SharedTile<kSsdState> state = {tiles.state}, dstate = {tiles.dstate};
    const int row = part_.row, column = part_.column(kSsdState);
    {
      ProjectionRows read = {};
      multiply_columns(dy, state, row, column, read);
      scale_rows(read, decays.from_start, row);
      dot_rows(read, c_tile(), row, column, sums.out[part_.half]);
      add(read, dc_);
    }
    ProjectionRows written = {};
    multiply_columns(x, dstate, row, column, written);
    scale_rows(written, decays.added, row);
    add(written, db_);
  }

  __device__ static void add(const ProjectionRows& from, ProjectionRows& to) {
#pragma unroll
    for (int n = 0; n < kSsdState / kHalves / 8; ++n)
      for (int e = 0; e < 4; ++e) to[n][e] += from[n][e];
  }

  // The state at the chunk's start times the cotangent of the one at its end: both tiles have their units alike.
  __device__ void sum_over(const HeadTiles& tiles, PositionSums& sums) const {
    float sum = 0.0F;
    for (int i = static_cast<int>(threadIdx.x) * 8; i < kSsdHeadDim * kSsdState; i += kChunkThreads * 8) {
      float a[8], b[8];
      load_bf16(tiles.state + i, a);
      load_bf16(tiles.dstate + i, b);
      for (int k = 0; k < 8; ++k) sum = fmaf(a[k], b[k], sum);
    }
    sum = warp_sum(sum);
    if (own_lane() == 0) sums.over[warp_] = sum;
  }

  // By one warp, two positions a lane: the cotangents of the log decays, of dt and of A. A log decay at k is crossed by
  // the pairs j < k <= i: those that later positions read, less those that they read of each other.
  __device__ void finish(int h) {
    const Decays& decays = s_.decays[h % 3];
    const PositionSums& sums = s_.sums[h % 2];
    const int lane = own_lane();
    float in[2], later[2], over = 0.0F;
    for (int k = 0; k < 2; ++k) {
      const int i = 2 * lane + k;
      in[k] = decays.dt[i] * (sums.in[0][i] + sums.in[1][i]);
      float of_pairs = sums.row[0][i] + sums.row[1][i];
      for (int w = 0; w < kSsdHeadWarps; ++w) of_pairs -= sums.column[w][i];
      later[k] = sums.out[0][i] + sums.out[1][i] + of_pairs;
    }
    for (int w = 0; w < kSsdChunkWarps; ++w) over += sums.over[w];
    float before = in[0] + in[1], after = later[0] + later[1];
    for (int distance = 1; distance < 32; distance *= 2) {
      const float lower = __shfl_up_sync(0xffffffffU, before, distance);
      const float upper = __shfl_down_sync(0xffffffffU, after, distance);
      if (lane >= distance) before += lower;
      if (lane + distance < 32) after += upper;
    }
    before = __shfl_up_sync(0xffffffffU, before, 1);
    after = __shfl_down_sync(0xffffffffU, after, 1);
    if (lane == 0) before = 0.0F;
    if (lane == 31) after = 0.0F;
    const float carried = over * decays.whole() + before + after + later[1];
    const float dlog_decay[2] = {carried + later[0], carried + in[0]};
    const float rate = load_one(f_.a, at_.head + h);
    float da = 0.0F;
    for (int k = 0; k < 2; ++k) {
      const int i = 2 * lane + k;
      const int64_t t = at_.chunk * kSsdChunk + i;
      if (t >= f_.sizes.seq) continue;
      da += decays.dt[i] * dlog_decay[k];
      const float ddt = sums.through_x[0][i] + sums.through_x[1][i] + rate * dlog_decay[k];
      store_one(ddt, p_.ddt, (at_.batch * f_.sizes.seq + t) * f_.sizes.heads + at_.head + h);
    }
    da = warp_sum(da);
    const int64_t part = (at_.batch * chunks_of(f_.sizes) + at_.chunk) * f_.sizes.heads + at_.head + h;
    if (lane == 0) reinterpret_cast<float*>(p_.da)[part] = da;
  }

  // dC += dscores B, dB += dscores^T C, and both are written.
  __device__ void projections() {
    const int row = part_.row, column = part_.column(kSsdState);
    store_sums(dscores_, pairs_tile(), row, part_.column(kSsdChunk));
    __syncthreads();
    for (int j = 0; j <= row; j += 16) {
      uint32_t a[4];
      load_left(pairs_tile(), row, j, a);
      add_product(a, b_tile(), column, j, dc_);
    }
    for (int i = row; i < kSsdChunk; i += 16) {
      uint32_t a[4];
      load_left_transposed(pairs_tile(), row, i, a);
      add_product(a, c_tile(), column, i, db_);
    }
    write(db_, p_.db);
    write(dc_, p_.dc);
  }

  __device__ static void add_product(const uint32_t (&a)[4], const SharedTile<kSsdState>& tile, int column, int k,
                                     ProjectionRows& sums) {
#pragma unroll
    for (int n = 0; n < kSsdState / kHalves / 16; ++n) {
      uint32_t b[4];
      load_right_transposed(tile, column + n * 16, k, b);
      multiply_add_pair(sums[2 * n], sums[2 * n + 1], a, b);
    }
  }

  __device__ void write(const ProjectionRows& sums, const FloatArray& to) const {
    const GlobalRows rows = group_rows(f_.sizes, to, at_.batch, group_, at_.chunk);
    const int row = part_.row + fragment_row();
#pragma unroll
    for (int n = 0; n < kSsdState / kHalves / 8; ++n) {
      const int column = part_.column(kSsdState) + n * 8 + fragment_column();
      const float above[2] = {sums[n][0], sums[n][1]}, below[2] = {sums[n][2], sums[n][3]};
      if (row < rows.count) store_bf16(above, rows.data + row * rows.stride + column);
      if (row + 8 < rows.count) store_bf16(below, rows.data + (row + 8) * rows.stride + column);
    }
  }

  const SsdChunksParams& p_;
  const SsdParams& f_;
  ChunksShared& s_;
  ChunkPlace at_;  // of the group's first head
  int64_t group_;
  int warp_;
  Part part_;
  PairSums scores_ = {}, dscores_ = {};
  ProjectionRows db_ = {}, dc_ = {};
};

}  // namespace

/// A block for each head and direction.
extern "C" __global__ void __launch_bounds__(kSsdHeadWarps * 32, 3)
    ssd_states(const __grid_constant__ SsdStatesParams p) {
  keep_states(p);
}

/// A block for each chunk of each group.
extern "C" __global__ void __launch_bounds__(kChunkThreads, 1) ssd_chunks(const __grid_constant__ SsdChunksParams p) {
  extern __shared__ char shared[];
  ChunkRun(p, *reinterpret_cast<ChunksShared*>(shared)).run();
}

}  // namespace megacpp::runtime::cuda
