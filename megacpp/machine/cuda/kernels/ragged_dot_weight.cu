// SPDX-License-Identifier: Apache-2.0
// Gradients of the experts' matrices on tensor cores: bf16 rows, sums in f32 over all rows of an expert in the order of
// its chunks, one block for each tile of a result, so that they repeat to the bit.
#include "megacpp/machine/cuda/kernels/grouped_product.cuh"

namespace megacpp::runtime::cuda {
namespace {

constexpr int kStepSegments = kTileDepth / kSegmentRows;
constexpr uint64_t kAllUsed = kSegmentRows | uint64_t{kSegmentRows} << 32;
static_assert(kStepSegments == 2 && sizeof(Segment) == 8);

// A tile of one expert's matrix.
struct WeightTile {
  int expert, row, column;  // of its first element
  int first, steps;         // of the expert's list: segments, and pairs of them
};

struct WeightWalk {
  int pairs, columns, count;

  __device__ __forceinline__ explicit WeightWalk(const RaggedDotWeightParams& p)
      : pairs((p.m + kTileRows * kClusterBlocks - 1) / (kTileRows * kClusterBlocks)),
        columns((p.n + kTileColumns - 1) / kTileColumns),
        count(p.experts * pairs * columns) {}
  __device__ __forceinline__ WeightTile tile(const RaggedDotWeightParams& p, int index) const {
    const int expert = index / (pairs * columns);
    const Place place = place_of(index - expert * pairs * columns, pairs, columns);
    const int first = p.lists.first[expert];
    return {expert, (place.pair * kClusterBlocks + static_cast<int>(rank_in_cluster())) * kTileRows,
            place.column * kTileColumns, first, (p.lists.first[expert + 1] - first) / kStepSegments};
  }
};

// Boxes of 64 columns: two of the left side, and this block's two of the right for both.
template <bool kWhole>
__device__ __forceinline__ void load_rows(const RaggedDotWeightParams& p, const Loading& to, const WeightTile& tile,
                                          int row, int offset) {
  const int rank = static_cast<int>(rank_in_cluster());
#pragma unroll
  for (int i = 0; i < 2; ++i)
    copy_tile({kWhole ? &p.a : &p.a_segment, to.barrier, to.left + i * kBlockBytes + offset}, tile.row + i * 64, row);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int block = rank * 2 + i;
    copy_tile_to_all({kWhole ? &p.b : &p.b_segment, to.barrier, to.right + block * kBlockBytes + offset},
                     tile.column + block * 64, row);
  }
}

__device__ __forceinline__ void load_weight_tile(const RaggedDotWeightParams& p, const Shared& shared, Ring& ring,
                                                 const WeightTile& tile) {
  for (int step = 0; step < tile.steps; ++step) {
    const Segment low = p.lists.segments[tile.first + step * kStepSegments];
    const Segment high = p.lists.segments[tile.first + step * kStepSegments + 1];
    const Loading to = begin_stage(shared, ring, low.used | uint64_t{high.used} << 32);
    if (high.row == low.row + kSegmentRows) {
      load_rows<true>(p, to, tile, low.row, 0);
    } else {
      load_rows<false>(p, to, tile, low.row, 0);
      load_rows<false>(p, to, tile, high.row, kSegmentRows * 128);
    }
    ring.advance();
  }
}

// Rows behind a segment's are another expert's, or nobody's: they count as zeros on both sides. Each half of the
// multiplying threads clears its own part of the left side and its share of the right.
__device__ __forceinline__ void clear_unused(const Shared& shared, int stage) {
  const uint64_t used = shared.notes[stage];
  if (used == kAllUsed) return;
  const int half = static_cast<int>(threadIdx.x) / 128 - 1;
  unsigned char* const left = shared.stages + stage * kStageBytes + half * kBlockBytes;
  unsigned char* const right = shared.stages + stage * kStageBytes + kLeftBytes + half * 2 * kBlockBytes;
  for (int i = static_cast<int>(threadIdx.x) % 128; i < kTileDepth * 8; i += 128) {
    const int row = i / 8, in_segment = row % kSegmentRows;
    const int rows = static_cast<int>(row < kSegmentRows ? used & 0xFFFF : used >> 32);
    if (in_segment < rows) continue;
    reinterpret_cast<uint4*>(left)[i] = make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(right)[i] = make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(right + kBlockBytes)[i] = make_uint4(0, 0, 0, 0);
  }
  publish_stores();
  asm volatile("bar.sync 1, 256;" ::: "memory");
}

template <typename T>
__device__ __forceinline__ void multiply_weight_tile(const RaggedDotWeightParams& p, const Shared& shared, Ring& ring,
                                                     const WeightTile& tile) {
  const int warp = static_cast<int>(threadIdx.x) / 32 - 4;
  float sum[128];
#pragma unroll
  for (float& s : sum) s = 0;
  multiply_stages<true, true>(sum, shared, ring, tile.steps, [&](int stage) { clear_unused(shared, stage); });
  store_rows(sum, shared, [&](int row, int column, const uint4& values) {
    const int m = tile.row + warp * 16 + row, n = tile.column + column;
    if (m < p.m && n < p.n) store_sums<T>(p, (int64_t{tile.expert} * p.m + m) * p.n + n, values);
  });
}

template <typename T>
__device__ __forceinline__ void run_weight(const RaggedDotWeightParams& p) {
  const Shared shared = begin_product();
  const WeightWalk walk(p);
  const int first = static_cast<int>(blockIdx.x) / kClusterBlocks,
            stride = static_cast<int>(gridDim.x) / kClusterBlocks;
  Ring ring;
  if (threadIdx.x < 128) {
    give_registers<40>();
    if (threadIdx.x == 0) {
      prefetch_map(&p.a);
      prefetch_map(&p.b);
      for (int i = first; i < walk.count; i += stride) load_weight_tile(p, shared, ring, walk.tile(p, i));
    }
  } else {
    take_registers<232>();
    for (int i = first; i < walk.count; i += stride) multiply_weight_tile<T>(p, shared, ring, walk.tile(p, i));
  }
  __syncwarp();
  sync_cluster();  // a block's barriers are there until the other has arrived at them for the last time
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kProductThreads, 1)
    ragged_dot_weight_f32(const __grid_constant__ RaggedDotWeightParams p) {
  run_weight<float>(p);
}

extern "C" __global__ void __launch_bounds__(kProductThreads, 1)
    ragged_dot_weight_bf16(const __grid_constant__ RaggedDotWeightParams p) {
  run_weight<__nv_bfloat16>(p);
}

}  // namespace megacpp::runtime::cuda
