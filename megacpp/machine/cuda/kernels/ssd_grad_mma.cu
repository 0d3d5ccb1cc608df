// SPDX-License-Identifier: Apache-2.0
// The gradient of ssd by tensor cores, in two kernels. The first walks each head through its sequence, forwards and
// backwards at once, and keeps its states between chunks and their cotangents as bf16. The second takes every chunk of
// every group by itself, head after head, so that dB and dC are summed in registers.
#include "megacpp/machine/cuda/kernels/ssd_walk.cuh"

namespace megacpp::runtime::cuda {
namespace {

// ---- States

template <int kHeads>
struct StatesShared {
  uint16_t rows[2][kSsdChunk * kSsdState];              // B or C
  uint16_t values[2][kHeads][kSsdChunk * kSsdHeadDim];  // x or dy
  uint16_t state[kHeads][kSsdHeadDim * kSsdState];
  Decays decays[2][kHeads];
};
static_assert(sizeof(StatesShared<1>) + kSsdAlignment == ssd_states_shared_bytes(1));
static_assert(sizeof(StatesShared<2>) + kSsdAlignment == ssd_states_shared_bytes(2));

// Where a kept state stands.
__device__ GlobalRows kept_state(const SsdSizes& z, uint64_t states, const ChunkPlace& at) {
  const int64_t index = (at.batch * z.heads + at.head) * chunks_of(z) + at.chunk;
  return {reinterpret_cast<uint16_t*>(states) + index * kSsdHeadDim * kSsdState, kSsdState, kSsdHeadDim};
}

// One direction of a walk: forwards x and B make the states, backwards dy and C their cotangents.
template <int kHeads>
struct StatesWalk {
  const SsdStatesParams& p;
  HeadBlock at;
  bool is_backward;

  __device__ ChunkPlace place(int64_t step, int h) const {
    return {at.batch, at.head + h, is_backward ? chunks_of(p.forward.sizes) - 1 - step : step};
  }

  __device__ void start_copies(int64_t step, StatesShared<kHeads>& s) const {
    constexpr int kThreads = kHeads * kSsdHeadWarps * 32;
    const SsdSizes& z = p.forward.sizes;
    const int buffer = static_cast<int>(step % 2), thread = static_cast<int>(threadIdx.x);
    start_copying(group_rows(z, is_backward ? p.forward.c : p.forward.b, at.batch, at.group, place(step, 0).chunk),
                  SharedTile<kSsdState>{s.rows[buffer]}, thread, kThreads);
    for (int h = 0; h < kHeads; ++h)
      start_copying(head_rows(z, is_backward ? p.forward.y : p.forward.x, place(step, h)),
                    SharedTile<kSsdHeadDim>{s.values[buffer][h]}, thread, kThreads);
  }
};

template <int kHeads>
__device__ void keep_states(const SsdStatesParams& p) {
  StatesShared<kHeads>& s = *reinterpret_cast<StatesShared<kHeads>*>(hopper::dynamic_shared());
  const StatesWalk<kHeads> walk = {p, head_block<kHeads>(p.forward.sizes, blockIdx.x / 2), blockIdx.x % 2 == 1};
  const int warp = hopper::uniform(static_cast<int>(threadIdx.x) / 32);
  const int h = warp / kSsdHeadWarps, row = warp % kSsdHeadWarps * 16;
  const int64_t chunks = chunks_of(p.forward.sizes);
  const SharedTile<kSsdState> state_tile = {s.state[h]};
  State state = {};
  walk.start_copies(0, s);
  if (row == 0) fill_decays(p.forward, walk.place(0, h), ask_decays(p.forward, walk.place(0, h)), s.decays[0][h]);
  for (int64_t step = 0; step < chunks; ++step) {
    const int buffer = static_cast<int>(step % 2);
    DecayInputs next = {};
    if (row == 0 && step + 1 < chunks) next = ask_decays(p.forward, walk.place(step + 1, h));
    store_state(state, state_tile, row);
    __syncwarp();
    write_rows<kSsdState / 8>(
        state_tile, row, 0, kept_state(p.forward.sizes, walk.is_backward ? p.dstates : p.states, walk.place(step, h)));
    if (step + 1 == chunks) break;
    wait_for_copies();
    hopper::fence_shared();
    __syncthreads();  // this chunk is there; nobody reads the one before any more
    walk.start_copies(step + 1, s);
    if (row == 0) fill_decays(p.forward, walk.place(step + 1, h), next, s.decays[1 - buffer][h]);
    const Decays& decays = s.decays[buffer][h];
    advance_state(state, row, decays.whole(), walk.is_backward ? decays.from_start : decays.added,
                  {s.values[buffer][h]}, {s.rows[buffer]});
  }
}

// ---- Chunks. Three warpgroups walk the heads of a group together, one barrier a head: the first makes dx and all
// that pairs of positions give, the second dB and dC, the third fetches the next head and finishes the one before.

constexpr int kGroupThreads = kSsdHeadWarps * 32;
constexpr int kChunkThreads = kSsdChunkWarps * 32;
static_assert(kChunkThreads == 3 * kGroupThreads);

// What is summed about the positions of one head.
struct PositionSums {
  float in[kSsdChunk];                    // x through the state at the chunk's end, before dt
  float out[kSsdChunk];                   // y through the state at its start
  float reads[kSsdHeadWarps][kSsdChunk];  // pairs that a position reads, but itself: those of each warp's 16 positions
  float is_read[kSsdChunk];               // pairs that read it
  float through_x[kSsdChunk];             // x times dx before dt
  float over[kSsdHeadWarps];              // state times its cotangent, over the chunk
};

struct HeadTiles {
  uint16_t x[kSsdChunk * kSsdHeadDim], dy[kSsdChunk * kSsdHeadDim];
  uint16_t state[kSsdHeadDim * kSsdState], dstate[kSsdHeadDim * kSsdState];  // at the chunk's start; its end
};

struct ChunksShared {
  uint16_t b[kSsdChunk * kSsdState], c[kSsdChunk * kSsdState];
  HeadTiles heads[2];
  uint16_t dscores[kSsdChunk * kSsdChunk];  // [j, i]
  uint16_t dx[kSsdChunk * kSsdHeadDim];
  Decays decays[3];  // of the head before, this one and the next
  PositionSums sums[2];

  __device__ SharedTile<kSsdState> b_tile() { return {b}; }
  __device__ SharedTile<kSsdState> c_tile() { return {c}; }
  __device__ SharedTile<kSsdChunk> dscores_tile() { return {dscores}; }
};
static_assert(sizeof(ChunksShared) + kSsdAlignment == kSsdChunksSharedBytes);

// A chunk of a group.
struct GroupChunk {
  const SsdChunksParams& p;
  const SsdParams& f;
  ChunkPlace at;  // of the group's first head
  int64_t group;
  int heads;

  __device__ explicit GroupChunk(const SsdChunksParams& params) : p(params), f(params.states.forward) {
    const SsdSizes& z = f.sizes;
    const int64_t chunks = chunks_of(z), index = blockIdx.x;
    group = index % z.groups;
    heads = static_cast<int>(z.heads / z.groups);
    at = {index / z.groups / chunks, group * heads, index / z.groups % chunks};
  }

  __device__ ChunkPlace place(int h) const { return {at.batch, at.head + h, at.chunk}; }
};

__device__ float sum_over_columns(float value) {  // of a fragment's row
  value += __shfl_xor_sync(0xffffffffU, value, 1);
  return value + __shfl_xor_sync(0xffffffffU, value, 2);
}

// Sums over the rows of all fragments: each lane gives two columns of every fragment n, at 2 n, and gets the sums of
// those two columns of fragment lane / 4. Half of what is left changes lanes each time.
__device__ float2 sum_over_rows(float (&values)[16]) {
#pragma unroll
  for (int left = 8, lanes = 16; lanes >= 4; left /= 2, lanes /= 2) {
    const bool is_upper = (own_lane() & lanes) != 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (k >= left) continue;
      const float given = is_upper ? values[k] : values[k + left];
      const float kept = is_upper ? values[k + left] : values[k];
      values[k] = kept + __shfl_xor_sync(0xffffffffU, given, lanes);
    }
  }
  return {values[0], values[1]};
}

// Each row of the sums times the row of 64 columns of the tile: added to of_row, a part in each lane.
template <int kColumns>
__device__ void dot_rows(const Sums& sums, const SharedTile<kColumns>& tile, int row, int piece, float (&of_row)[2]) {
#pragma unroll
  for (int n = 0; n < 8; ++n)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const uint32_t pair = tile.pair(row + fragment_row() + 8 * below, piece * 64 + n * 8 + fragment_column());
      const float* const sum = sums + 4 * n + 2 * below;
      of_row[below] += fmaf(low_of(pair), sum[0], high_of(pair) * sum[1]);
    }
}

// The parts of all lanes, to to[row].
__device__ void store_rows(const float (&of_row)[2], int row, float* to) {
  const float above = sum_over_columns(of_row[0]), below = sum_over_columns(of_row[1]);
  if (fragment_column() != 0) return;
  to[row + fragment_row()] = above;
  to[row + fragment_row() + 8] = below;
}

// ---- The first warpgroup: dx, and the pairs of positions. Rows are the positions j that are read, columns those i
// that read them, so that pairs are the left operand of dx as they stand in registers.
class PositionsRun {
 public:
  __device__ PositionsRun(const GroupChunk& chunk, ChunksShared& s) : chunk_(chunk), s_(s) {
    row_ = hopper::uniform(static_cast<int>(threadIdx.x) / 32) % kSsdHeadWarps * 16;
  }

  __device__ void meet_scores() {
    hopper::fence_products();
    start_rows(scores_, s_.b_tile(), s_.c_tile());
    hopper::commit_products();
    hopper::wait_for_products<0>();
    hopper::pin(scores_);
  }

  __device__ void head(int h) {
    HeadTiles& tiles = s_.heads[h % 2];
    const SharedTile<kSsdHeadDim> x = {tiles.x}, dy = {tiles.dy}, dx_tile = {s_.dx};
    const Decays& decays = s_.decays[h % 3];
    PositionSums& sums = s_.sums[h % 2];
    LeftOperand mixing;
    Sums products = {}, dx = {};
    hopper::fence_products();
    start_rows(products, x, dy);
    hopper::commit_products();
    start_rows(dx, s_.b_tile(), SharedTile<kSsdState>{tiles.dstate});  // through the state at the chunk's end
    hopper::commit_products();
    hopper::wait_for_products<1>();
    hopper::pin(products);
    meet_pairs(products, decays, sums, mixing);
    hopper::wait_for_products<0>();
    hopper::pin(dx);
    scale_rows(dx, decays.to_end, row_);
    hopper::pin(dx);
    float in[2] = {}, through_x[2] = {};
    dot_rows(dx, x, row_, 0, in);
    store_rows(in, row_, sums.in);
    hopper::fence_products();
    start_columns(dx, mixing, dy, 0);
    hopper::commit_products();
    hopper::wait_for_products<0>();
    hopper::pin(dx);
    dot_rows(dx, x, row_, 0, through_x);
    store_rows(through_x, row_, sums.through_x);
    scale_rows(dx, decays.dt, row_);
    store_sums(dx, dx_tile, row_, 0);
    __syncwarp();
    write_rows<kSsdHeadDim / 8>(dx_tile, row_, 0, head_rows(chunk_.f.sizes, chunk_.p.dx, chunk_.place(h)));
    __syncwarp();
  }

  __device__ void give_dscores() const { store_sums(dscores_, s_.dscores_tile(), row_, 0); }

 private:
  // What dx reads becomes `mixing`, what dB and dC read is summed over the heads.
  __device__ void meet_pairs(const Sums& products, const Decays& decays, PositionSums& sums, LeftOperand& mixing) {
    const int j = row_ + fragment_row();
    const float log2_read[2] = {decays.log2_sum[j], decays.log2_sum[j + 8]}, dt[2] = {decays.dt[j], decays.dt[j + 8]};
    float of_column[16] = {}, of_row[2] = {};
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float mixed[4] = {};
      if (n * 8 + 7 >= row_) {  // some of these positions read one of the warp's
        const int i = n * 8 + fragment_column();
        const float2 log2_sum = *reinterpret_cast<const float2*>(decays.log2_sum + i);
        const int2 first = *reinterpret_cast<const int2*>(decays.first + i);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int from = j + e / 2 * 8, to = i + e % 2;
          const bool is_read = from <= to && from >= (e % 2 == 0 ? first.x : first.y);
          const float passed = exp2_of((e % 2 == 0 ? log2_sum.x : log2_sum.y) - log2_read[e / 2]);
          const float decay = is_read ? passed : 0.0F, dscore = products[4 * n + e] * decay * dt[e / 2];
          const float term = to == from ? 0.0F : scores_[4 * n + e] * dscore;
          mixed[e] = scores_[4 * n + e] * decay;
          dscores_[4 * n + e] += dscore;
          of_column[2 * n + e % 2] += term;
          of_row[e / 2] += term;
        }
      }
      mixing[n / 2][n % 2 * 2] = to_bf16_pair(mixed[0], mixed[1]);
      mixing[n / 2][n % 2 * 2 + 1] = to_bf16_pair(mixed[2], mixed[3]);
    }
    store_rows(of_row, row_, sums.is_read);
    const int i = fragment_row() * 8 + fragment_column();
    *reinterpret_cast<float2*>(sums.reads[row_ / 16] + i) = sum_over_rows(of_column);
  }

  const GroupChunk& chunk_;
  ChunksShared& s_;
  int row_;  // the warp's first
  Sums scores_ = {}, dscores_ = {};
};

// ---- The second warpgroup: dB and dC
class ProjectionsRun {
 public:
  __device__ ProjectionsRun(const GroupChunk& chunk, ChunksShared& s) : chunk_(chunk), s_(s) {
    row_ = hopper::uniform(static_cast<int>(threadIdx.x) / 32) % kSsdHeadWarps * 16;
  }

  // dC through the state at the chunk's start, dB through the one at its end.
  __device__ void head(int h) {
    HeadTiles& tiles = s_.heads[h % 2];
    const SharedTile<kSsdHeadDim> x = {tiles.x}, dy = {tiles.dy};
    const SharedTile<kSsdState> state = {tiles.state}, dstate = {tiles.dstate};
    const Decays& decays = s_.decays[h % 3];
    PositionSums& sums = s_.sums[h % 2];
    LeftOperand added;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      load_left(x, row_, step * 16, added[step]);
      scale_rows(added[step], decays.added + row_);
    }
    float out[2] = {};
    Sums read = {};
    hopper::fence_products();
    start_columns<Along::summed>(read, dy, state, 0);
    hopper::commit_products();
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) start_columns(db_[piece], added, dstate, piece);
    hopper::commit_products();
    sum_over(tiles, sums);
    hopper::wait_for_products<1>();
    take(read, decays, 0, out);
    Sums more = {};
    hopper::fence_products();
    start_columns<Along::summed>(more, dy, state, 1);
    hopper::commit_products();
    hopper::wait_for_products<0>();
    hopper::pin(db_[0]);
    hopper::pin(db_[1]);
    take(more, decays, 1, out);
    store_rows(out, row_, sums.out);
  }

  // dC += dscores B, dB += dscores^T C, and both are written.
  __device__ void finish() {
    hopper::fence_products();
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      start_columns<Along::across>(dc_[piece], s_.dscores_tile(), s_.b_tile(), piece);
      start_columns<Along::summed>(db_[piece], s_.dscores_tile(), s_.c_tile(), piece);
    }
    hopper::commit_products();
    hopper::wait_for_products<0>();
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      hopper::pin(dc_[piece]);
      hopper::pin(db_[piece]);
      write(db_[piece], chunk_.p.db, piece);
      write(dc_[piece], chunk_.p.dc, piece);
    }
  }

 private:
  __device__ void take(Sums& read, const Decays& decays, int piece, float (&out)[2]) {
    hopper::pin(read);
    scale_rows(read, decays.from_start, row_);
    dot_rows(read, s_.c_tile(), row_, piece, out);
#pragma unroll
    for (int i = 0; i < 32; ++i) dc_[piece][i] += read[i];
  }

  // The state at the chunk's start times the cotangent of the one at its end: both tiles have their units alike.
  __device__ void sum_over(const HeadTiles& tiles, PositionSums& sums) const {
    float sum = 0.0F;
    const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
#pragma unroll 2
    for (int i = thread * 8; i < kSsdHeadDim * kSsdState; i += kGroupThreads * 8) {
      float a[8], b[8];
      load_bf16(tiles.state + i, a);
      load_bf16(tiles.dstate + i, b);
      for (int k = 0; k < 8; ++k) sum = fmaf(a[k], b[k], sum);
    }
    sum = warp_sum(sum);
    if (own_lane() == 0) sums.over[row_ / 16] = sum;
  }

  __device__ void write(const Sums& sums, const FloatArray& to, int piece) const {
    const GlobalRows rows = group_rows(chunk_.f.sizes, to, chunk_.at.batch, chunk_.group, chunk_.at.chunk);
    const int row = row_ + fragment_row();
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const int column = piece * 64 + n * 8 + fragment_column();
      const float above[2] = {sums[4 * n], sums[4 * n + 1]}, below[2] = {sums[4 * n + 2], sums[4 * n + 3]};
      if (row < rows.count) store_bf16(above, rows.data + row * rows.stride + column);
      if (row + 8 < rows.count) store_bf16(below, rows.data + (row + 8) * rows.stride + column);
    }
  }

  const GroupChunk& chunk_;
  ChunksShared& s_;
  int row_;  // the warp's first
  Sums db_[kPieces] = {}, dc_[kPieces] = {};
};

// ---- The third warpgroup
class HeadsRun {
 public:
  __device__ HeadsRun(const GroupChunk& chunk, ChunksShared& s) : chunk_(chunk), s_(s) {
    thread_ = static_cast<int>(threadIdx.x) % kGroupThreads;
    warp_ = hopper::uniform(thread_ / 32);
  }

  __device__ void start_projections() {
    const SsdParams& f = chunk_.f;
    const ChunkPlace& at = chunk_.at;
    start_copying(group_rows(f.sizes, f.b, at.batch, chunk_.group, at.chunk), s_.b_tile(), thread_, kGroupThreads);
    start_copying(group_rows(f.sizes, f.c, at.batch, chunk_.group, at.chunk), s_.c_tile(), thread_, kGroupThreads);
  }

  __device__ void start_head(int h) {
    HeadTiles& tiles = s_.heads[h % 2];
    const SsdStatesParams& kept = chunk_.p.states;
    const SsdSizes& z = chunk_.f.sizes;
    const ChunkPlace at = chunk_.place(h);
    start_copying(head_rows(z, chunk_.f.x, at), SharedTile<kSsdHeadDim>{tiles.x}, thread_, kGroupThreads);
    start_copying(head_rows(z, chunk_.f.y, at), SharedTile<kSsdHeadDim>{tiles.dy}, thread_, kGroupThreads);
    start_copying(kept_state(z, kept.states, at), SharedTile<kSsdState>{tiles.state}, thread_, kGroupThreads);
    start_copying(kept_state(z, kept.dstates, at), SharedTile<kSsdState>{tiles.dstate}, thread_, kGroupThreads);
    if (warp_ == 0) fill_decays(chunk_.f, at, ask_decays(chunk_.f, at), s_.decays[h % 3]);
  }

  // What was started is there, for tensor cores too.
  __device__ static void wait_for_head() {
    wait_for_copies();
    hopper::fence_shared();
  }

  __device__ void finish_head(int h) const {
    if (warp_ == 1) finish(h);
  }

 private:
  // By one warp, two positions a lane: the cotangents of the log decays, of dt and of A. A log decay at k is crossed by
  // the pairs j < k <= i: those that later positions read, less those that they read of each other.
  __device__ void finish(int h) const {
    const Decays& decays = s_.decays[h % 3];
    const PositionSums& sums = s_.sums[h % 2];
    const int lane = own_lane();
    float in[2], later[2], over = 0.0F;
    for (int k = 0; k < 2; ++k) {
      const int i = 2 * lane + k;
      in[k] = decays.dt[i] * sums.in[i];
      float of_pairs = -sums.is_read[i];
      for (int w = 0; w < kSsdHeadWarps; ++w) of_pairs += sums.reads[w][i];
      later[k] = sums.out[i] + of_pairs;
    }
    for (int w = 0; w < kSsdHeadWarps; ++w) over += sums.over[w];
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
    const float rate = load_one(chunk_.f.a, chunk_.at.head + h);
    float da = 0.0F;
    for (int k = 0; k < 2; ++k) {
      const int i = 2 * lane + k;
      const int64_t t = chunk_.at.chunk * kSsdChunk + i;
      if (t >= chunk_.f.sizes.seq) continue;
      da += decays.dt[i] * dlog_decay[k];
      const float ddt = sums.through_x[i] + rate * dlog_decay[k];
      store_one(ddt, chunk_.p.ddt,
                (chunk_.at.batch * chunk_.f.sizes.seq + t) * chunk_.f.sizes.heads + chunk_.at.head + h);
    }
    da = warp_sum(da);
    const int64_t part =
        (chunk_.at.batch * chunks_of(chunk_.f.sizes) + chunk_.at.chunk) * chunk_.f.sizes.heads + chunk_.at.head + h;
    if (lane == 0) reinterpret_cast<float*>(chunk_.p.da)[part] = da;
  }

  const GroupChunk& chunk_;
  ChunksShared& s_;
  int thread_, warp_;
};

__device__ void run_chunk(const SsdChunksParams& p) {
  ChunksShared& s = *reinterpret_cast<ChunksShared*>(hopper::dynamic_shared());
  const GroupChunk chunk(p);
  const int group = hopper::uniform(static_cast<int>(threadIdx.x) / kGroupThreads);
  if (group == 2) {
    hopper::give_registers<40>();
    HeadsRun run(chunk, s);
    run.start_projections();
    run.start_head(0);
    for (int h = 0; h < chunk.heads; ++h) {
      HeadsRun::wait_for_head();
      __syncthreads();  // this head is there; nobody reads the one before any more
      if (h + 1 < chunk.heads) run.start_head(h + 1);
      if (h > 0) run.finish_head(h - 1);
    }
    __syncthreads();
    run.finish_head(chunk.heads - 1);
    return;
  }
  hopper::take_registers<232>();
  if (group == 0) {
    PositionsRun run(chunk, s);
    for (int h = 0; h < chunk.heads; ++h) {
      __syncthreads();
      if (h == 0) run.meet_scores();
      run.head(h);
    }
    run.give_dscores();
    hopper::fence_shared();
    __syncthreads();
    return;
  }
  ProjectionsRun run(chunk, s);
  for (int h = 0; h < chunk.heads; ++h) {
    __syncthreads();
    run.head(h);
  }
  __syncthreads();
  run.finish();
}

}  // namespace

/// A block for each head, or two of them, and direction.
extern "C" __global__ void __launch_bounds__(kSsdHeadWarps * 32, 3)
    ssd_states_1(const __grid_constant__ SsdStatesParams p) {
  keep_states<1>(p);
}

extern "C" __global__ void __launch_bounds__(2 * kSsdHeadWarps * 32, 2)
    ssd_states_2(const __grid_constant__ SsdStatesParams p) {
  keep_states<2>(p);
}

/// A block for each chunk of each group.
extern "C" __global__ void __launch_bounds__(kChunkThreads, 1) ssd_chunks(const __grid_constant__ SsdChunksParams p) {
  run_chunk(p);
}

}  // namespace megacpp::runtime::cuda
