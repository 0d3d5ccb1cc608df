// SPDX-License-Identifier: Apache-2.0
// Attention forward: online softmax over the visible tiles of one head's query block; a task a block.
#include <algorithm>
#include <cmath>

#include "megacpp/runtime/cpu/gemm.h"
#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/kernels/attention_blocks.h"
#include "megacpp/runtime/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

// One worker's scratch.
struct Scratch {
  float scores[TilePlan::kTileElements];
  float highest[TilePlan::kQueryBlock];  // of the scores met so far, by query
  float sum[TilePlan::kQueryBlock];      // of exp(score - highest)
};

class Attention {
 public:
  explicit Attention(const ops::NodeView& view)
      : sizes_(view),
        plan_(ops::AttentionMask::from(view.attrs), sizes_.queries, sizes_.keys),
        has_segments_(view.operands.size() == 4) {}

  void run(const KernelArgs& args) const {
    Scratch* scratch = args.scratch<Scratch>();
    const int64_t heads = sizes_.batch * sizes_.heads;
    const int64_t tasks = heads * static_cast<int64_t>(plan_.by_query_block().size());
    args.pool.for_each(tasks, [&](int64_t task, int worker) {
      const TileList& block = plan_.by_query_block()[static_cast<size_t>(task / heads)];
      attend(args, block, task % heads / sizes_.heads, task % sizes_.heads, scratch[worker]);
    });
  }

 private:
  void attend(const KernelArgs& args, const TileList& block, int64_t b, int64_t head, Scratch& scratch) const {
    const AttentionSizes& z = sizes_;
    const int64_t first = z.query_at(b, head, block.begin), rows = block.end - block.begin;
    const int32_t* segments = has_segments_ ? args.in<int32_t>(3) + b * z.queries : nullptr;
    float* out = args.out(0) + first;
    clear_rows(out, rows, z.dim, z.query_stride());
    std::fill_n(scratch.highest, rows, static_cast<float>(ops::kHiddenScore));
    std::fill_n(scratch.sum, rows, 0.0F);
    for (const Tile& tile : block.tiles) {
      const SegmentCover cover = segment_cover(segments, tile);
      if (cover == SegmentCover::disjoint) continue;
      const int64_t keys = z.key_at(b, head / z.group(), tile.key_begin);
      gemm({.transpose_b = true,
            .m = rows,
            .n = tile.width(),
            .k = z.dim,
            .alpha = z.scale,
            .a = args.in(0) + first,
            .lda = z.query_stride(),
            .b = args.in(1) + keys,
            .ldb = z.key_stride(),
            .c = scratch.scores,
            .ldc = tile.width()});
      for (int64_t row = 0; row < rows; ++row) {
        float* scores = scratch.scores + row * tile.width();
        if (cover == SegmentCover::mixed) hide_other_segments(segments, tile, block.begin + row, scores);
        soften(tile, block.begin + row, scores, out + row * z.query_stride(), scratch);
      }
      gemm({.m = rows,
            .n = z.dim,
            .k = tile.width(),
            .a = scratch.scores,
            .lda = tile.width(),
            .b = args.in(2) + keys,
            .ldb = z.key_stride(),
            .beta = 1.0F,
            .c = out,
            .ldc = z.query_stride()});
    }
    finish(rows, out, args.out(1) + z.lse_at(b, head, block.begin), scratch);
  }

  // Scores of one query become weights relative to the highest score so far; what was summed before is rescaled.
  void soften(const Tile& tile, int64_t query, float* scores, float* out, Scratch& scratch) const {
    const int64_t row = query - tile.query_begin;
    const auto visible = plan_.visible_columns(tile, query);
    const float before = scratch.highest[row];
    float highest = before;
    for (const auto [begin, end] : visible)
      if (begin < end) highest = std::max(highest, row_max_value(scores + begin, end - begin));
    if (highest > before && scratch.sum[row] > 0.0F) {
      const float factor = std::exp(before - highest);
      scratch.sum[row] *= factor;
      row_scale(factor, out, out, sizes_.dim);
    }
    scratch.highest[row] = highest;
    for (const auto [begin, end] : visible)
      if (begin < end) scratch.sum[row] += row_exp_sum(scores + begin, highest, scores + begin, end - begin);
    if (tile.masked) clear_hidden(visible, tile.width(), scores);
  }

  void finish(int64_t rows, float* out, float* lse, const Scratch& scratch) const {
    for (int64_t row = 0; row < rows; ++row) {
      const float sum = scratch.sum[row];
      lse[row] = scratch.highest[row];
      if (sum == 0.0F) continue;  // saw nothing: out is zero already
      lse[row] += std::log(sum);
      row_scale(1.0F / sum, out + row * sizes_.query_stride(), out + row * sizes_.query_stride(), sizes_.dim);
    }
  }

  AttentionSizes sizes_;
  TilePlan plan_;
  bool has_segments_;
};

}  // namespace

Kernel attention_kernel() {
  return {.op = "attention", .prepare = [](const ops::NodeView& view, int threads) {
            return Prepared{.run = [attention = Attention(view)](const KernelArgs& args) { attention.run(args); },
                            .workspace_bytes = threads * static_cast<int64_t>(sizeof(Scratch))};
          }};
}

}  // namespace megacpp::runtime::cpu
