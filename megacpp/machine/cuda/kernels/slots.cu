// SPDX-License-Identifier: Apache-2.0
// Counts are whole numbers, so the order in which they are added does not show. Where the order of choices matters,
// each warp takes a stretch of them: it counts its stretch, is told how many come before it, and then goes through the
// stretch again, 32 choices at a time.
#include "megacpp/machine/cuda/kernels/float_access.cuh"
#include "megacpp/machine/cuda/kernels/score_order.cuh"
#include "megacpp/machine/cuda/kernels/slots_params.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kThreads = kSlotWarps * 32;
constexpr uint32_t kAllLanes = 0xffffffffU;

// One chunk's choices, and the experts [first, first + kSlotExperts) that this pass looks at.
struct Pass {
  const int32_t* experts;
  int64_t choices, num_experts, first;

  /// Among this pass's experts, or -1.
  __device__ int expert(int64_t choice) const {
    if (choice >= choices) return -1;
    const int64_t expert = experts[choice] - first;
    return expert >= 0 && expert < kSlotExperts && experts[choice] < num_experts ? static_cast<int>(expert) : -1;
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) expert_counts(const __grid_constant__ ExpertCountsParams p) {
  __shared__ int32_t counts[kSlotExperts];
  const int64_t chunk = blockIdx.x;
  Pass pass = {reinterpret_cast<const int32_t*>(p.experts) + chunk * p.choices, p.choices, p.num_experts, 0};
  int32_t* all = reinterpret_cast<int32_t*>(p.counts) + chunk * p.num_experts;
  for (; pass.first < p.num_experts; pass.first += kSlotExperts) {
    if (threadIdx.x < kSlotExperts) counts[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < p.choices; i += kThreads) {
      const int expert = pass.expert(i);
      if (expert >= 0) atomicAdd(&counts[expert], 1);
    }
    __syncthreads();
    if (threadIdx.x < kSlotExperts && pass.first + threadIdx.x < p.num_experts)
      all[pass.first + threadIdx.x] = counts[threadIdx.x];
  }
}

namespace {

// The stretch of choices that a warp takes: whole groups of 32.
struct Stretch {
  int64_t begin, end;
};

__device__ Stretch stretch_of(int64_t choices, int warp) {
  const int64_t length = (choices + kThreads - 1) / kThreads * 32, begin = warp * length;
  return {begin, begin + length < choices ? begin + length : choices};
}

// The lanes that name the same expert as this one.
__device__ uint32_t peers_of(int expert) { return __match_any_sync(kAllLanes, expert); }

__device__ bool is_last_of(uint32_t peers, int lane) { return peers >> lane == 1; }

// What a choice may take: places below `free` of rows that begin at `row`.
struct Rows {
  int32_t row, free;
};

__device__ Rows rows_of(const TokenChoiceParams& p, int64_t chunk, int64_t expert, int32_t packed_row) {
  if (p.rows_per_expert == 0) return {packed_row, INT32_MAX};
  const int32_t most = static_cast<int32_t>(p.rows_per_expert), row = static_cast<int32_t>(expert) * most;
  if (p.capacity == 0) return {row, most};
  const int32_t* before = reinterpret_cast<const int32_t*>(p.before);
  const int64_t taken = before == nullptr ? 0 : before[chunk * p.num_experts + expert];
  const int64_t left = p.capacity - taken;
  return {row, left < 0 ? 0 : left < most ? static_cast<int32_t>(left) : most};
}

struct Placement {
  int32_t counts[kSlotWarps][kSlotExperts];  // of a warp's stretch; then of all stretches before it
  Rows rows[kSlotExperts];
  int32_t packed;  // rows of lower experts

  // How often each expert is chosen in the warp's stretch.
  __device__ void count(const Pass& pass, int warp, int lane) {
    for (int e = lane; e < kSlotExperts; e += 32) counts[warp][e] = 0;
    __syncwarp();
    const Stretch stretch = stretch_of(pass.choices, warp);
    for (int64_t first = stretch.begin; first < stretch.end; first += 32) {
      const int expert = pass.expert(first + lane);
      const uint32_t peers = peers_of(expert);
      if (expert >= 0 && is_last_of(peers, lane)) counts[warp][expert] += __popc(peers);
      __syncwarp();
    }
  }

  // What comes before each stretch, and where each expert's rows begin.
  __device__ void sum(const TokenChoiceParams& p, const Pass& pass, int64_t chunk) {
    __shared__ int32_t totals[kSlotExperts];
    if (threadIdx.x < kSlotExperts) {
      int32_t total = 0;
      for (int w = 0; w < kSlotWarps; ++w) {
        const int32_t own = counts[w][threadIdx.x];
        counts[w][threadIdx.x] = total;
        total += own;
      }
      totals[threadIdx.x] = total;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      int32_t first = packed;
      for (int e = 0; e < kSlotExperts && pass.first + e < p.num_experts; ++e) {
        if (threadIdx.x == 0) rows[e] = rows_of(p, chunk, pass.first + e, first);
        first += totals[e];
      }
      __syncwarp();
      if (threadIdx.x == 0) packed = first;
    }
    __syncthreads();
  }

  __device__ void place(const Pass& pass, int warp, int lane, int32_t* slots) {
    const Stretch stretch = stretch_of(pass.choices, warp);
    for (int64_t first = stretch.begin; first < stretch.end; first += 32) {
      const int expert = pass.expert(first + lane);
      const uint32_t peers = peers_of(expert);
      if (expert >= 0) {
        const int32_t place = counts[warp][expert] + __popc(peers & ((1U << lane) - 1));
        slots[first + lane] = place < rows[expert].free ? rows[expert].row + place : -1;
      }
      __syncwarp();
      if (expert >= 0 && is_last_of(peers, lane)) counts[warp][expert] += __popc(peers);
      __syncwarp();
    }
  }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) token_choice_slots(const __grid_constant__ TokenChoiceParams p) {
  __shared__ Placement placement;
  const int64_t chunk = blockIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  Pass pass = {reinterpret_cast<const int32_t*>(p.experts) + chunk * p.choices, p.choices, p.num_experts, 0};
  int32_t* slots = reinterpret_cast<int32_t*>(p.slots) + chunk * p.choices;
  if (threadIdx.x == 0) placement.packed = 0;
  for (int64_t i = threadIdx.x; i < p.choices; i += kThreads)
    if (pass.experts[i] < 0 || pass.experts[i] >= p.num_experts) slots[i] = -1;
  for (; pass.first < p.num_experts; pass.first += kSlotExperts) {
    placement.count(pass, warp, lane);
    __syncthreads();
    placement.sum(p, pass, chunk);
    placement.place(pass, warp, lane, slots);
    __syncthreads();
  }
}

namespace {

constexpr int kDigits = 256;

// Smaller keys are taken first: higher scores, then earlier tokens.
__device__ uint64_t key_of(const ExpertChoiceParams& p, int64_t first, int64_t token) {
  const uint32_t rank = score_rank(load_one(p.scores, first + token * p.experts));
  const int32_t* times = reinterpret_cast<const int32_t*>(p.times);
  const uint32_t time = static_cast<uint32_t>(times == nullptr ? static_cast<int32_t>(token) : times[token]);
  return static_cast<uint64_t>(~rank) << 32 | (time ^ 0x80000000U);
}

}  // namespace

// The last key that is taken is found digit by digit from the top: of the keys that begin like it, how many have each
// next digit.
extern "C" __global__ void __launch_bounds__(kThreads) expert_choice(const __grid_constant__ ExpertChoiceParams p) {
  __shared__ int32_t counts[kDigits];
  __shared__ uint64_t bar;
  __shared__ int64_t left;  // to take among the keys that begin like the bar
  const int64_t sequence = blockIdx.x / p.experts, first = sequence * p.tokens * p.experts + blockIdx.x % p.experts;
  if (threadIdx.x == 0) bar = 0, left = p.taken;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (threadIdx.x < kDigits) counts[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t t = threadIdx.x; t < p.tokens; t += kThreads) {
      const uint64_t key = key_of(p, first, t);
      if (shift == 56 || key >> (shift + 8) == bar >> (shift + 8)) atomicAdd(&counts[key >> shift & 0xff], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int64_t digit = 0;
      while (counts[digit] < left) left -= counts[digit++];
      bar |= static_cast<uint64_t>(digit) << shift;
    }
    __syncthreads();
  }
  uint8_t* chosen = reinterpret_cast<uint8_t*>(p.chosen);
  for (int64_t t = threadIdx.x; t < p.tokens; t += kThreads)
    chosen[first + t * p.experts] = key_of(p, first, t) <= bar ? 1 : 0;
}

}  // namespace megacpp::runtime::cuda
