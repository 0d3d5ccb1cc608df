// SPDX-License-Identifier: Apache-2.0
// ssd by tensor cores. Sequences are cut into chunks of kSsdChunk positions: inside a chunk all pairs of positions
// meet, between chunks a state is carried, S [head_dim, state], in f32 registers. A block walks kHeads heads of one
// group through their whole sequence, so B and C are read once for them and the states never leave the chip. A
// warpgroup takes a head: 16 positions in each warp of what is written, 16 rows of the state.
#include "megacpp/machine/cuda/kernels/ssd_walk.cuh"

namespace megacpp::runtime::cuda {
namespace {

// ---- Forward

template <int kHeads>
struct ForwardShared {
  uint16_t b[2][kSsdChunk * kSsdState], c[2][kSsdChunk * kSsdState];
  uint16_t x[2][kHeads][kSsdChunk * kSsdHeadDim];
  uint16_t y[kHeads][kSsdChunk * kSsdHeadDim];
  uint16_t state[kHeads][kSsdHeadDim * kSsdState];  // at the chunk's start
  Decays decays[2][kHeads];
};
static_assert(sizeof(ForwardShared<1>) + kSsdAlignment == ssd_forward_shared_bytes(1));
static_assert(sizeof(ForwardShared<2>) + kSsdAlignment == ssd_forward_shared_bytes(2));

struct ForwardTiles {
  SharedTile<kSsdState> b, c, state;
  SharedTile<kSsdHeadDim> x;
  const Decays& decays;
};

// C B^T * decay * dt as the left operand of the product with x; `row` is the first of this warp's positions.
__device__ void mix(const Sums& scores, const Decays& decays, int row, LeftOperand& mixing) {
  const int i = row + fragment_row();
  const float log2_sum[2] = {decays.log2_sum[i], decays.log2_sum[i + 8]};
  const int first[2] = {decays.first[i], decays.first[i + 8]};
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float mixed[4] = {};
    if (n * 8 < row + 16) {  // some position of the warp reads these
      const int j = n * 8 + fragment_column();
      const float2 log2_read = *reinterpret_cast<const float2*>(decays.log2_sum + j);
      const float2 dt = *reinterpret_cast<const float2*>(decays.dt + j);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int from = j + e % 2, to = i + e / 2 * 8;
        const bool is_read = from <= to && from >= first[e / 2];
        const float decay = exp2_of(log2_sum[e / 2] - (e % 2 == 0 ? log2_read.x : log2_read.y));
        mixed[e] = is_read ? scores[4 * n + e] * decay * (e % 2 == 0 ? dt.x : dt.y) : 0.0F;
      }
    }
    mixing[n / 2][n % 2 * 2] = to_bf16_pair(mixed[0], mixed[1]);
    mixing[n / 2][n % 2 * 2 + 1] = to_bf16_pair(mixed[2], mixed[3]);
  }
}

// y = C S with the decay from the chunk's start, plus (C B^T * decay * dt) x.
__device__ void read_positions(const ForwardTiles& t, int row, Sums& y) {
  LeftOperand mixing;
  Sums scores = {};
  hopper::fence_products();
  start_rows(scores, t.c, t.b);
  hopper::commit_products();
  start_rows(y, t.c, t.state);
  hopper::commit_products();
  hopper::wait_for_products<1>();
  hopper::pin(scores);
  mix(scores, t.decays, row, mixing);
  hopper::wait_for_products<0>();
  hopper::pin(y);
  scale_rows(y, t.decays.from_start, row);
  hopper::fence_products();
  start_columns(y, mixing, t.x, 0);
  hopper::commit_products();
  hopper::wait_for_products<0>();
  hopper::pin(y);
}

template <int kHeads>
__device__ void start_forward_copies(const SsdParams& p, const HeadBlock& at, int64_t chunk, ForwardShared<kHeads>& s) {
  constexpr int kThreads = kHeads * kSsdHeadWarps * 32;
  const int buffer = static_cast<int>(chunk % 2), thread = static_cast<int>(threadIdx.x);
  start_copying(group_rows(p.sizes, p.b, at.batch, at.group, chunk), SharedTile<kSsdState>{s.b[buffer]}, thread,
                kThreads);
  start_copying(group_rows(p.sizes, p.c, at.batch, at.group, chunk), SharedTile<kSsdState>{s.c[buffer]}, thread,
                kThreads);
  for (int h = 0; h < kHeads; ++h)
    start_copying(head_rows(p.sizes, p.x, {at.batch, at.head + h, chunk}), SharedTile<kSsdHeadDim>{s.x[buffer][h]},
                  thread, kThreads);
}

template <int kHeads>
__device__ void forward(const SsdParams& p) {
  ForwardShared<kHeads>& s = *reinterpret_cast<ForwardShared<kHeads>*>(hopper::dynamic_shared());
  const HeadBlock at = head_block<kHeads>(p.sizes, blockIdx.x);
  const int warp = hopper::uniform(static_cast<int>(threadIdx.x) / 32);
  const int h = warp / kSsdHeadWarps, row = warp % kSsdHeadWarps * 16;
  const int64_t chunks = chunks_of(p.sizes);
  const SharedTile<kSsdState> state_tile = {s.state[h]};
  const SharedTile<kSsdHeadDim> y_tile = {s.y[h]};
  State state = {};
  store_state(state, state_tile, row);
  start_forward_copies(p, at, 0, s);
  const auto place = [&](int64_t chunk) { return ChunkPlace{at.batch, at.head + h, chunk}; };
  if (row == 0) fill_decays(p, place(0), ask_decays(p, place(0)), s.decays[0][h]);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int buffer = static_cast<int>(chunk % 2);
    const bool has_next = chunk + 1 < chunks;
    wait_for_copies();
    hopper::fence_shared();
    __syncthreads();  // this chunk is there; nobody reads the one before any more
    if (has_next) start_forward_copies(p, at, chunk + 1, s);
    DecayInputs next = {};
    if (row == 0 && has_next) next = ask_decays(p, place(chunk + 1));
    const ForwardTiles tiles = {{s.b[buffer]}, {s.c[buffer]}, state_tile, {s.x[buffer][h]}, s.decays[buffer][h]};
    {
      Sums y = {};
      read_positions(tiles, row, y);
      store_sums(y, y_tile, row, 0);
    }
    __syncwarp();
    write_rows<kSsdHeadDim / 8>(y_tile, row, 0, head_rows(p.sizes, p.y, place(chunk)));
    if (!has_next) break;
    if (row == 0) fill_decays(p, place(chunk + 1), next, s.decays[1 - buffer][h]);
    advance_state(state, row, tiles.decays.whole(), tiles.decays.added, tiles.x, tiles.b);
    hopper::wait_at_barrier(1 + h, kSsdHeadWarps * 32);  // the state was read
    store_state(state, state_tile, row);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kSsdHeadWarps * 32, 2) ssd_forward_1(const __grid_constant__ SsdParams p) {
  forward<1>(p);
}

extern "C" __global__ void __launch_bounds__(2 * kSsdHeadWarps * 32, 1)
    ssd_forward_2(const __grid_constant__ SsdParams p) {
  forward<2>(p);
}

}  // namespace megacpp::runtime::cuda
