// SPDX-License-Identifier: Apache-2.0
// Attention forward: online softmax over the visible tiles of a query block, all heads of a group at once; a task a
// block.
#include <algorithm>
#include <cmath>

#include "megacpp/machine/cpu/gemm.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/attention_blocks.h"
#include "megacpp/machine/cpu/kernels/scratch.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kKeyBlock = 512;

// One worker's scratch; R rows of a block.
struct Scratch {
  float* q;        // [R, d]
  float* out;      // [R, d]
  float* scores;   // [R, width of the tile]
  float* highest;  // [R], of the scores met so far
  float* sum;      // [R], of exp(score - highest)
};

class ScratchLayout {
 public:
  ScratchLayout(int64_t rows, int64_t dim)
      : q_(plan_.book(rows * dim)),
        out_(plan_.book(rows * dim)),
        scores_(plan_.book(rows * kKeyBlock)),
        highest_(plan_.book(rows)),
        sum_(plan_.book(rows)) {}

  int64_t bytes() const { return plan_.bytes(); }

  Scratch of(const KernelArgs& args, int worker) const {
    float* memory = args.scratch(worker * plan_.bytes());
    return {memory + q_, memory + out_, memory + scores_, memory + highest_, memory + sum_};
  }

 private:
  ScratchPlan plan_;
  int64_t q_, out_, scores_, highest_, sum_;
};

class Attention {
 public:
  explicit Attention(const ops::NodeView& view)
      : sizes_(view),
        mask_(ops::AttentionMask::from(view.attrs)),
        tokens_(ops::TokenOperands::behind(ops::kAttentionOperands, view.attrs)),
        plan_(view.attrs, sizes_, kKeyBlock),
        layout_(plan_.block_rows(), sizes_.dim) {}

  int64_t bytes_per_thread() const { return layout_.bytes(); }

  void run(const KernelArgs& args) const {
    const int64_t groups = sizes_.batch * sizes_.kv_heads;
    const int64_t tasks = groups * static_cast<int64_t>(plan_.query_blocks().size());
    args.pool.for_each(tasks, [&](int64_t task, int worker) {
      const TokenBlock& block = plan_.query_blocks()[static_cast<size_t>(task / groups)];
      attend(args, block, HeadGroup(sizes_, task % groups), layout_.of(args, worker));
    });
  }

 private:
  void attend(const KernelArgs& args, const TokenBlock& block, const HeadGroup& at, const Scratch& scratch) const {
    const AttentionSizes& z = sizes_;
    const int64_t queries = block.size(), rows = queries * z.group();
    const TokenMask tokens(mask_, tokens_, z, args, at.b);
    copy_rows(args.in(0) + z.query_at(at.b, at.first_head, block.begin), z.query_stride(), scratch.q, z.group_dim(),
              queries, z.group_dim());
    row_fill(0.0F, scratch.out, rows * z.dim);
    begin_rows(args, at, queries, scratch);
    plan_.for_each_tile_of_queries(block, [&](Tile tile) {
      const ops::Cover cover = tokens.trim(tile);
      if (cover == ops::Cover::none) return;
      const int64_t keys = z.key_at(at.b, at.kv_head, tile.key_begin);
      gemm({.transpose_b = true,
            .m = rows,
            .n = tile.width(),
            .k = z.dim,
            .alpha = z.scale,
            .a = scratch.q,
            .lda = z.dim,
            .b = args.in(1) + keys,
            .ldb = z.key_stride(),
            .c = scratch.scores,
            .ldc = tile.width()});
      soften(tile, cover == ops::Cover::some ? &tokens : nullptr, scratch);
      gemm({.m = rows,
            .n = z.dim,
            .k = tile.width(),
            .a = scratch.scores,
            .lda = tile.width(),
            .b = args.in(2) + keys,
            .ldb = z.key_stride(),
            .beta = 1.0F,
            .c = scratch.out,
            .ldc = z.dim});
    });
    finish(args, block, at, scratch);
  }

  // Nothing has been met but the sinks.
  void begin_rows(const KernelArgs& args, const HeadGroup& at, int64_t queries, const Scratch& scratch) const {
    const int64_t rows = queries * sizes_.group();
    row_fill(static_cast<float>(ops::kHiddenScore), scratch.highest, rows);
    row_fill(tokens_.sinks ? 1.0F : 0.0F, scratch.sum, rows);
    if (!tokens_.sinks) return;
    const float* sinks = args.in(tokens_.sink_scores()) + at.first_head;
    for (int64_t row = 0; row < rows; ++row) scratch.highest[row] = sinks[row % sizes_.group()];
  }

  // Scores become weights relative to the highest score so far. `tokens` is null where they hide nothing.
  void soften(const Tile& tile, const TokenMask* tokens, const Scratch& scratch) const {
    for (int64_t query = tile.query_begin; query < tile.query_end; ++query) {
      const auto visible = plan_.visible_columns(tile, query);
      const int64_t first = (query - tile.query_begin) * sizes_.group();
      for (int64_t row = first; row < first + sizes_.group(); ++row) {
        float* scores = scratch.scores + row * tile.width();
        if (sizes_.softcap > 0) cap_scores(sizes_.softcap, scores, tile.width());
        if (tokens != nullptr) tokens->hide(tile, query, scores);
        soften_row(visible, row, scores, scratch);
        if (tile.masked) clear_hidden(visible, tile.width(), scores);
      }
    }
  }

  // What was summed before is rescaled when a higher score is met.
  void soften_row(const std::array<ops::KeyRange, 2>& visible, int64_t row, float* scores,
                  const Scratch& scratch) const {
    const float before = scratch.highest[row];
    float highest = before;
    for (const auto [begin, end] : visible)
      if (begin < end) highest = std::max(highest, row_max_value(scores + begin, end - begin));
    if (highest > before && scratch.sum[row] > 0.0F) {
      const float factor = std::exp(before - highest);
      scratch.sum[row] *= factor;
      row_scale(factor, scratch.out + row * sizes_.dim, scratch.out + row * sizes_.dim, sizes_.dim);
    }
    scratch.highest[row] = highest;
    for (const auto [begin, end] : visible)
      if (begin < end) scratch.sum[row] += row_exp_sum(scores + begin, highest, scores + begin, end - begin);
  }

  void finish(const KernelArgs& args, const TokenBlock& block, const HeadGroup& at, const Scratch& scratch) const {
    for (int64_t query = block.begin; query < block.end; ++query)
      for (int64_t g = 0; g < sizes_.group(); ++g) {
        const int64_t row = (query - block.begin) * sizes_.group() + g, head = at.first_head + g;
        const float sum = scratch.sum[row];
        const bool saw_any = sum != 0.0F;  // else out is zero already
        args.out(1)[sizes_.lse_at(at.b, head, query)] = scratch.highest[row] + (saw_any ? std::log(sum) : 0.0F);
        row_scale(saw_any ? 1.0F / sum : 1.0F, scratch.out + row * sizes_.dim,
                  args.out(0) + sizes_.query_at(at.b, head, query), sizes_.dim);
      }
  }

  AttentionSizes sizes_;
  ops::AttentionMask mask_;
  ops::TokenOperands tokens_;
  TilePlan plan_;
  ScratchLayout layout_;
};

}  // namespace

Kernel attention_kernel() {
  return {.op = "attention", .prepare = [](const ops::NodeView& view, int threads) {
            const Attention attention(view);
            return Prepared{.run = [attention](const KernelArgs& args) { attention.run(args); },
                            .workspace_bytes = threads * attention.bytes_per_thread()};
          }};
}

}  // namespace megacpp::runtime::cpu
