// SPDX-License-Identifier: Apache-2.0
// Attention backward. The weights of a tile are computed again from lse. With a task a key head, one pass gives dq, dk
// and dv; when that leaves too many threads idle, dq is made by query block and dk, dv by key block, at the price of
// computing each tile twice. Either way every result element is summed by one task in a fixed order.
#include <algorithm>

#include "megacpp/runtime/cpu/gemm.h"
#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/kernels/attention_blocks.h"
#include "megacpp/runtime/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

// One worker's scratch.
struct Scratch {
  float p[TilePlan::kTileElements];   // weights
  float ds[TilePlan::kTileElements];  // cotangents of the scores, before scaling
};

// One query head of one batch row.
struct Head {
  int64_t b, head, kv_head;
};

enum class Want { query, key_value, all };

// Products a tile: 5 in one pass, 7 when made twice.
bool one_pass_is_faster(int64_t tasks, int64_t threads) {
  const int64_t rounds = (tasks + threads - 1) / threads;
  return 7 * tasks >= 5 * rounds * threads;
}

class AttentionGrad {
 public:
  explicit AttentionGrad(const ops::NodeView& view)
      : sizes_(view),
        plan_(ops::AttentionMask::from(view.attrs), sizes_.queries, sizes_.keys),
        has_segments_(view.operands.size() == 7) {}

  void run(const KernelArgs& args) const {
    if (one_pass_is_faster(sizes_.batch * sizes_.kv_heads, args.pool.size())) {
      by_kv_head(args);
    } else {
      by_query_block(args);
      by_key_block(args);
    }
  }

 private:
  void by_kv_head(const KernelArgs& args) const {
    args.pool.for_each(sizes_.batch * sizes_.kv_heads, [&](int64_t task, int worker) {
      const int64_t b = task / sizes_.kv_heads, kv_head = task % sizes_.kv_heads;
      clear_keys(args, b, kv_head, 0, sizes_.keys);
      for_each_head_of(b, kv_head, [&](const Head& at) {
        for (const TileList& block : plan_.by_query_block()) {
          clear_queries(args, at, block);
          for (const Tile& tile : block.tiles) add_tile(args, at, tile, Want::all, worker);
        }
      });
    });
  }

  void by_query_block(const KernelArgs& args) const {
    const int64_t heads = sizes_.batch * sizes_.heads;
    const int64_t tasks = heads * static_cast<int64_t>(plan_.by_query_block().size());
    args.pool.for_each(tasks, [&](int64_t task, int worker) {
      const TileList& block = plan_.by_query_block()[static_cast<size_t>(task / heads)];
      const int64_t head = task % sizes_.heads;
      const Head at{task % heads / sizes_.heads, head, head / sizes_.group()};
      clear_queries(args, at, block);
      for (const Tile& tile : block.tiles) add_tile(args, at, tile, Want::query, worker);
    });
  }

  void by_key_block(const KernelArgs& args) const {
    const int64_t heads = sizes_.batch * sizes_.kv_heads;
    const int64_t tasks = heads * static_cast<int64_t>(plan_.by_key_block().size());
    args.pool.for_each(tasks, [&](int64_t task, int worker) {
      const TileList& block = plan_.by_key_block()[static_cast<size_t>(task / heads)];
      const int64_t b = task % heads / sizes_.kv_heads, kv_head = task % sizes_.kv_heads;
      clear_keys(args, b, kv_head, block.begin, block.end);
      for_each_head_of(b, kv_head, [&](const Head& at) {
        for (const Tile& tile : block.tiles) add_tile(args, at, tile, Want::key_value, worker);
      });
    });
  }

  template <typename Body>
  void for_each_head_of(int64_t b, int64_t kv_head, const Body& body) const {
    for (int64_t g = 0; g < sizes_.group(); ++g) body(Head{b, kv_head * sizes_.group() + g, kv_head});
  }

  void clear_queries(const KernelArgs& args, const Head& at, const TileList& block) const {
    clear_rows(args.out(0) + sizes_.query_at(at.b, at.head, block.begin), block.end - block.begin, sizes_.dim,
               sizes_.query_stride());
  }

  void clear_keys(const KernelArgs& args, int64_t b, int64_t kv_head, int64_t begin, int64_t end) const {
    for (const size_t result : {size_t{1}, size_t{2}})
      clear_rows(args.out(result) + sizes_.key_at(b, kv_head, begin), end - begin, sizes_.dim, sizes_.key_stride());
  }

  void add_tile(const KernelArgs& args, const Head& at, const Tile& tile, Want want, int worker) const {
    const AttentionSizes& z = sizes_;
    const int32_t* segments = has_segments_ ? args.in<int32_t>(6) + at.b * z.queries : nullptr;
    const SegmentCover cover = segment_cover(segments, tile);
    if (cover == SegmentCover::disjoint) return;
    Scratch& scratch = args.scratch<Scratch>()[worker];
    make_weights(args, at, tile, cover == SegmentCover::mixed ? segments : nullptr, scratch.p);
    make_score_cotangents(args, at, tile, scratch);

    const int64_t rows = z.query_at(at.b, at.head, tile.query_begin);
    const int64_t keys = z.key_at(at.b, at.kv_head, tile.key_begin);
    if (want != Want::key_value)
      gemm({.m = tile.rows(),
            .n = z.dim,
            .k = tile.width(),
            .alpha = z.scale,
            .a = scratch.ds,
            .lda = tile.width(),
            .b = args.in(1) + keys,
            .ldb = z.key_stride(),
            .beta = 1.0F,
            .c = args.out(0) + rows,
            .ldc = z.query_stride()});
    if (want == Want::query) return;
    const auto add_to_keys = [&](float factor, const float* weights, const float* from, float* to) {
      gemm({.transpose_a = true,
            .m = tile.width(),
            .n = z.dim,
            .k = tile.rows(),
            .alpha = factor,
            .a = weights,
            .lda = tile.width(),
            .b = from + rows,
            .ldb = z.query_stride(),
            .beta = 1.0F,
            .c = to + keys,
            .ldc = z.key_stride()});
    };
    add_to_keys(z.scale, scratch.ds, args.in(0), args.out(1));
    add_to_keys(1.0F, scratch.p, args.in(5), args.out(2));
  }

  // p = exp(scale q k^T - lse), zero where hidden. `segments` is null where they hide nothing.
  void make_weights(const KernelArgs& args, const Head& at, const Tile& tile, const int32_t* segments, float* p) const {
    const AttentionSizes& z = sizes_;
    gemm({.transpose_b = true,
          .m = tile.rows(),
          .n = tile.width(),
          .k = z.dim,
          .alpha = z.scale,
          .a = args.in(0) + z.query_at(at.b, at.head, tile.query_begin),
          .lda = z.query_stride(),
          .b = args.in(1) + z.key_at(at.b, at.kv_head, tile.key_begin),
          .ldb = z.key_stride(),
          .c = p,
          .ldc = tile.width()});
    for (int64_t query = tile.query_begin; query < tile.query_end; ++query) {
      float* row = p + (query - tile.query_begin) * tile.width();
      if (segments != nullptr) hide_other_segments(segments, tile, query, row);
      const auto visible = plan_.visible_columns(tile, query);
      const float lse = args.in(4)[z.lse_at(at.b, at.head, query)];
      for (const auto [begin, end] : visible)
        if (begin < end) row_exp_sum(row + begin, lse, row + begin, end - begin);
      if (tile.masked) clear_hidden(visible, tile.width(), row);
    }
  }

  // ds = p (dout v^T - delta), delta being dout . out of each query.
  void make_score_cotangents(const KernelArgs& args, const Head& at, const Tile& tile, Scratch& scratch) const {
    const AttentionSizes& z = sizes_;
    const int64_t first = z.query_at(at.b, at.head, tile.query_begin);
    for (int64_t row = 0; row < tile.rows(); ++row) {
      const int64_t offset = first + row * z.query_stride();
      const float delta = row_dot(args.in(3) + offset, args.in(5) + offset, z.dim);
      row_fill(-delta, scratch.ds + row * tile.width(), tile.width());
    }
    gemm({.transpose_b = true,
          .m = tile.rows(),
          .n = tile.width(),
          .k = z.dim,
          .a = args.in(5) + first,
          .lda = z.query_stride(),
          .b = args.in(2) + z.key_at(at.b, at.kv_head, tile.key_begin),
          .ldb = z.key_stride(),
          .beta = 1.0F,
          .c = scratch.ds,
          .ldc = tile.width()});
    row_mul(scratch.p, scratch.ds, scratch.ds, tile.rows() * tile.width());
  }

  AttentionSizes sizes_;
  TilePlan plan_;
  bool has_segments_;
};

}  // namespace

Kernel attention_grad_kernel() {
  return {.op = "attention_grad", .prepare = [](const ops::NodeView& view, int threads) {
            return Prepared{.run = [grad = AttentionGrad(view)](const KernelArgs& args) { grad.run(args); },
                            .workspace_bytes = threads * static_cast<int64_t>(sizeof(Scratch))};
          }};
}

}  // namespace megacpp::runtime::cpu
