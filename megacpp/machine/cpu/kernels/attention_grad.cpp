// SPDX-License-Identifier: Apache-2.0
// Attention backward. The weights of a tile are computed again from lse. With a task a group, one pass gives dq, dk and
// dv; when that leaves too many threads idle, dq is made by query block and dk, dv by key block, at the price of
// computing each tile twice. Either way every result element is summed by one task in a fixed order.

#include "megacpp/machine/cpu/gemm.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/attention_blocks.h"
#include "megacpp/machine/cpu/kernels/scratch.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

// One worker's scratch; R rows of a block.
struct GradScratch {
  float* q;      // [R, d]
  float* dout;   // [R, d]
  float* dq;     // [R, d]
  float* lse;    // [R]
  float* delta;  // [R], dout . out
  float* p;      // [R, width of the tile], weights
  float* ds;     // [R, width of the tile], cotangents of the scores, before scaling
  float* slope;  // [R, width of the tile], of the soft cap, where there is one
};

class GradScratchLayout {
 public:
  GradScratchLayout(int64_t rows, const AttentionSizes& z, int64_t key_block)
      : q_(plan_.book(rows * z.dim)),
        dout_(plan_.book(rows * z.dim)),
        dq_(plan_.book(rows * z.dim)),
        lse_(plan_.book(rows)),
        delta_(plan_.book(rows)),
        p_(plan_.book(rows * key_block)),
        ds_(plan_.book(rows * key_block)),
        slope_(plan_.book(z.softcap > 0 ? rows * key_block : 0)) {}

  int64_t bytes() const { return plan_.bytes(); }

  GradScratch of(const KernelArgs& args, int worker) const {
    float* memory = args.scratch(worker * plan_.bytes());
    return {memory + q_,     memory + dout_, memory + dq_, memory + lse_,
            memory + delta_, memory + p_,    memory + ds_, memory + slope_};
  }

 private:
  ScratchPlan plan_;
  int64_t q_, dout_, dq_, lse_, delta_, p_, ds_, slope_;
};

enum class Want { query, key_value, all };

// Products a tile: 5 in one pass with a task a group, 7 when made twice.
bool one_pass_is_faster(const AttentionSizes& z, int64_t threads) {
  const int64_t tasks = z.batch * z.kv_heads;
  const int64_t rounds = (tasks + threads - 1) / threads;
  return 7 * tasks >= 5 * rounds * threads;
}

class AttentionGrad {
 public:
  AttentionGrad(const ops::NodeView& view, int threads)
      : sizes_(view),
        one_pass_(one_pass_is_faster(sizes_, threads)),
        mask_(ops::AttentionMask::from(view.attrs)),
        tokens_(ops::TokenOperands::behind(ops::kAttentionGradOperands, view.attrs)),
        plan_(view.attrs, sizes_, key_block()),
        layout_(plan_.block_rows(), sizes_, key_block()) {}

  int64_t bytes_per_thread() const { return layout_.bytes(); }

  void run(const KernelArgs& args) const {
    if (one_pass_) {
      by_group(args);
    } else {
      by_query_block(args);
      by_key_block(args);
    }
  }

 private:
  // Wide tiles are faster; narrow ones give more tasks.
  int64_t key_block() const { return one_pass_ ? 512 : 256; }
  int64_t groups() const { return sizes_.batch * sizes_.kv_heads; }

  void by_group(const KernelArgs& args) const {
    args.pool.for_each(groups(), [&](int64_t task, int worker) {
      const HeadGroup at(sizes_, task);
      clear_keys(args, at, 0, sizes_.keys);
      for (const TokenBlock& block : plan_.query_blocks())
        add_query_block(args, at, block, Want::all, layout_.of(args, worker));
    });
  }

  void by_query_block(const KernelArgs& args) const {
    const int64_t tasks = groups() * static_cast<int64_t>(plan_.query_blocks().size());
    args.pool.for_each(tasks, [&](int64_t task, int worker) {
      const TokenBlock& block = plan_.query_blocks()[static_cast<size_t>(task / groups())];
      add_query_block(args, HeadGroup(sizes_, task % groups()), block, Want::query, layout_.of(args, worker));
    });
  }

  void by_key_block(const KernelArgs& args) const {
    const int64_t tasks = groups() * static_cast<int64_t>(plan_.key_blocks().size());
    args.pool.for_each(tasks, [&](int64_t task, int worker) {
      const TokenBlock& block = plan_.key_blocks()[static_cast<size_t>(task / groups())];
      const HeadGroup at(sizes_, task % groups());
      const GradScratch scratch = layout_.of(args, worker);
      clear_keys(args, at, block.begin, block.end);
      const TokenMask tokens(mask_, tokens_, sizes_, args, at.b);
      plan_.for_each_tile_of_keys(block, [&](Tile tile) {
        const ops::Cover cover = tokens.trim(tile);
        if (cover == ops::Cover::none) return;
        gather(args, at, tile.query_begin, tile.query_end, scratch);
        add_tile(args, at, tile, cover == ops::Cover::some ? &tokens : nullptr, Want::key_value, scratch);
      });
    });
  }

  void add_query_block(const KernelArgs& args, const HeadGroup& at, const TokenBlock& block, Want want,
                       const GradScratch& scratch) const {
    const AttentionSizes& z = sizes_;
    const int64_t queries = block.size();
    gather(args, at, block.begin, block.end, scratch);
    row_fill(0.0F, scratch.dq, queries * z.group_dim());
    const TokenMask tokens(mask_, tokens_, z, args, at.b);
    plan_.for_each_tile_of_queries(block, [&](Tile tile) {
      if (const ops::Cover cover = tokens.trim(tile); cover != ops::Cover::none)
        add_tile(args, at, tile, cover == ops::Cover::some ? &tokens : nullptr, want, scratch);
    });
    copy_rows(scratch.dq, z.group_dim(), args.out(0) + z.query_at(at.b, at.first_head, block.begin), z.query_stride(),
              queries, z.group_dim());
  }

  void clear_keys(const KernelArgs& args, const HeadGroup& at, int64_t begin, int64_t end) const {
    for (const size_t result : {size_t{1}, size_t{2}})
      clear_rows(args.out(result) + sizes_.key_at(at.b, at.kv_head, begin), end - begin, sizes_.dim,
                 sizes_.key_stride());
  }

  // What the tiles of queries [begin, end) read by row.
  void gather(const KernelArgs& args, const HeadGroup& at, int64_t begin, int64_t end,
              const GradScratch& scratch) const {
    const AttentionSizes& z = sizes_;
    const int64_t first = z.query_at(at.b, at.first_head, begin);
    copy_rows(args.in(0) + first, z.query_stride(), scratch.q, z.group_dim(), end - begin, z.group_dim());
    copy_rows(args.in(5) + first, z.query_stride(), scratch.dout, z.group_dim(), end - begin, z.group_dim());
    for (int64_t query = begin; query < end; ++query)
      for (int64_t g = 0; g < z.group(); ++g) {
        const int64_t row = (query - begin) * z.group() + g, head = at.first_head + g;
        scratch.lse[row] = args.in(4)[z.lse_at(at.b, head, query)];
        scratch.delta[row] = row_dot(args.in(3) + z.query_at(at.b, head, query), scratch.dout + row * z.dim, z.dim);
      }
  }

  // `tokens` is null where they hide nothing.
  void add_tile(const KernelArgs& args, const HeadGroup& at, const Tile& tile, const TokenMask* tokens, Want want,
                const GradScratch& scratch) const {
    const AttentionSizes& z = sizes_;
    const int64_t rows = tile.queries() * z.group(), keys = z.key_at(at.b, at.kv_head, tile.key_begin);
    make_weights(args.in(1) + keys, tile, tokens, scratch);
    make_score_cotangents(args.in(2) + keys, tile, scratch);
    if (want != Want::key_value)
      gemm({.m = rows,
            .n = z.dim,
            .k = tile.width(),
            .alpha = z.scale,
            .a = scratch.ds,
            .lda = tile.width(),
            .b = args.in(1) + keys,
            .ldb = z.key_stride(),
            .beta = 1.0F,
            .c = scratch.dq,
            .ldc = z.dim});
    if (want == Want::query) return;
    const auto add_to_keys = [&](float factor, const float* weights, const float* from, float* to) {
      gemm({.transpose_a = true,
            .m = tile.width(),
            .n = z.dim,
            .k = rows,
            .alpha = factor,
            .a = weights,
            .lda = tile.width(),
            .b = from,
            .ldb = z.dim,
            .beta = 1.0F,
            .c = to,
            .ldc = z.key_stride()});
    };
    add_to_keys(z.scale, scratch.ds, scratch.q, args.out(1) + keys);
    add_to_keys(1.0F, scratch.p, scratch.dout, args.out(2) + keys);
  }

  // p = exp(scale q k^T - lse), zero where hidden.
  void make_weights(const float* k, const Tile& tile, const TokenMask* tokens, const GradScratch& scratch) const {
    const AttentionSizes& z = sizes_;
    gemm({.transpose_b = true,
          .m = tile.queries() * z.group(),
          .n = tile.width(),
          .k = z.dim,
          .alpha = z.scale,
          .a = scratch.q,
          .lda = z.dim,
          .b = k,
          .ldb = z.key_stride(),
          .c = scratch.p,
          .ldc = tile.width()});
    for (int64_t query = tile.query_begin; query < tile.query_end; ++query) {
      const auto visible = plan_.visible_columns(tile, query);
      const int64_t first = (query - tile.query_begin) * z.group();
      for (int64_t row = first; row < first + z.group(); ++row) {
        float* weights = scratch.p + row * tile.width();
        if (z.softcap > 0) {
          cap_scores(z.softcap, weights, tile.width());
          cap_slopes(z.softcap, weights, scratch.slope + row * tile.width(), tile.width());
        }
        if (tokens != nullptr) tokens->hide(tile, query, weights);
        for (const auto [begin, end] : visible)
          if (begin < end) row_exp_sum(weights + begin, scratch.lse[row], weights + begin, end - begin);
        if (tile.masked) clear_hidden(visible, tile.width(), weights);
      }
    }
  }

  // ds = p (dout v^T - delta), times the slope of a soft cap.
  void make_score_cotangents(const float* v, const Tile& tile, const GradScratch& scratch) const {
    const AttentionSizes& z = sizes_;
    const int64_t rows = tile.queries() * z.group();
    for (int64_t row = 0; row < rows; ++row)
      row_fill(-scratch.delta[row], scratch.ds + row * tile.width(), tile.width());
    gemm({.transpose_b = true,
          .m = rows,
          .n = tile.width(),
          .k = z.dim,
          .a = scratch.dout,
          .lda = z.dim,
          .b = v,
          .ldb = z.key_stride(),
          .beta = 1.0F,
          .c = scratch.ds,
          .ldc = tile.width()});
    row_mul(scratch.p, scratch.ds, scratch.ds, rows * tile.width());
    if (z.softcap > 0) row_mul(scratch.slope, scratch.ds, scratch.ds, rows * tile.width());
  }

  AttentionSizes sizes_;
  bool one_pass_;
  ops::AttentionMask mask_;
  ops::TokenOperands tokens_;
  TilePlan plan_;
  GradScratchLayout layout_;
};

}  // namespace

Kernel attention_grad_kernel() {
  return {.op = "attention_grad", .prepare = [](const ops::NodeView& view, int threads) {
            const AttentionGrad grad(view, threads);
            return Prepared{.run = [grad](const KernelArgs& args) { grad.run(args); },
                            .workspace_bytes = threads * grad.bytes_per_thread()};
          }};
}

}  // namespace megacpp::runtime::cpu
