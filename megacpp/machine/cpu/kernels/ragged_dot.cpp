// SPDX-License-Identifier: Apache-2.0
// One matrix product per expert and chunk. Groups are of uneven size, so threads share the rows, not the groups; groups
// are taken expert by expert, so that a matrix serves all its chunks while it is in cache.
#include <algorithm>

#include "megacpp/machine/cpu/gemm.h"
#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kGrainRows = 16;  // what the micro-kernel of the matrix product fills

// The rows in use of one expert in one chunk.
struct Group {
  int64_t start, rows;
};

// How the rows of all chunks belong to experts: packed one group behind the other, or each in its own places.
struct Layout {
  int64_t chunks, experts;
  int64_t chunk_rows;       // with those not in use
  int64_t rows_per_expert;  // places of an expert; 0: packed

  int64_t workspace_bytes() const { return chunks * experts * static_cast<int64_t>(sizeof(Group)); }
};

Layout layout_of(const ir::TensorType& rows, const ir::TensorType& counts) {
  const bool packed = rows.rank() == 4;
  return {.chunks = rows.dim(0) * rows.dim(1),
          .experts = counts.dim(2),
          .chunk_rows = packed ? rows.dim(2) : rows.dim(2) * rows.dim(3),
          .rows_per_expert = packed ? 0 : rows.dim(3)};
}

// Where every group is, worked out from the counts of a run.
class Groups {
 public:
  Groups(const Layout& layout, const int32_t* counts, Group* memory) : layout_(layout), groups_(memory) {
    for (int64_t c = 0; c < layout.chunks; ++c) {
      int64_t start = c * layout.chunk_rows;
      for (int64_t e = 0; e < layout.experts; ++e) {
        const int64_t count = counts[c * layout.experts + e];
        const int64_t rows = layout.rows_per_expert > 0 ? std::min(count, layout.rows_per_expert) : count;
        memory[e * layout.chunks + c] = {start, rows};
        start += layout.rows_per_expert > 0 ? layout.rows_per_expert : rows;
        used_ += rows;
      }
    }
  }

  const Group& at(int64_t expert, int64_t chunk) const { return groups_[expert * layout_.chunks + chunk]; }
  int64_t used() const { return used_; }
  int64_t used(int64_t expert) const {
    int64_t rows = 0;
    for (int64_t c = 0; c < layout_.chunks; ++c) rows += at(expert, c).rows;
    return rows;
  }
  const Layout& layout() const { return layout_; }

 private:
  const Layout& layout_;
  const Group* groups_;  // [experts, chunks]
  int64_t used_ = 0;
};

struct Sizes {
  Layout layout;
  int64_t h, f;     // x[rows, h], w[experts, h, f]
  bool transposed;  // w[experts, f, h]
  bool accumulates;
};

// The product for the used rows [begin, end), counted over all groups; they may cross groups.
void dot_rows(const Sizes& s, const Groups& groups, const KernelArgs& args, int64_t begin, int64_t end) {
  int64_t first = 0;  // used rows before the group's
  for (int64_t e = 0; e < s.layout.experts && first < end; ++e) {
    for (int64_t c = 0; c < s.layout.chunks; ++c) {
      const Group& group = groups.at(e, c);
      const int64_t from = std::max(begin - first, int64_t{0}) + group.start;
      const int64_t to = std::min(end - first, group.rows) + group.start;
      first += group.rows;
      if (from >= to) continue;
      gemm({.transpose_b = s.transposed,
            .m = to - from,
            .n = s.f,
            .k = s.h,
            .a = args.in(0) + from * s.h,
            .lda = s.h,
            .b = args.in(1) + e * s.h * s.f,
            .ldb = s.transposed ? s.h : s.f,
            .beta = s.accumulates ? 1.0F : 0.0F,
            .c = args.out(0) + from * s.f,
            .ldc = s.f});
    }
  }
}

void zero_unused_rows(const Sizes& s, const Groups& groups, int64_t chunk, float* out) {
  int64_t end = chunk * s.layout.chunk_rows;  // of the group before
  for (int64_t e = 0; e < s.layout.experts; ++e) {
    const Group& group = groups.at(e, chunk);
    std::fill(out + end * s.f, out + group.start * s.f, 0.0F);
    end = group.start + group.rows;
  }
  std::fill(out + end * s.f, out + (chunk + 1) * s.layout.chunk_rows * s.f, 0.0F);
}

Prepared prepare_ragged_dot(const ops::NodeView& view, int) {
  const Sizes s = {.layout = layout_of(view.operands[0], view.operands[2]),
                   .h = view.operands[0].dim(-1),
                   .f = view.results[0].dim(-1),
                   .transposed = view.attrs.flag("transpose_w"),
                   .accumulates = view.operands.size() == 4};
  const auto run = [s](const KernelArgs& args) {
    const Groups groups(s.layout, args.in<int32_t>(2), args.scratch<Group>());
    if (s.accumulates && args.operands[3] != args.results[0])
      std::copy_n(args.in(3), s.layout.chunks * s.layout.chunk_rows * s.f, args.out(0));
    args.pool.parallel_for(groups.used(), kGrainRows,
                           [&](int64_t begin, int64_t end, int) { dot_rows(s, groups, args, begin, end); });
    if (!s.accumulates)
      args.pool.for_each(s.layout.chunks, [&](int64_t c, int) { zero_unused_rows(s, groups, c, args.out(0)); });
  };
  return {run, s.layout.workspace_bytes()};
}

// The first result row of an expert with `count` x rows that starts at or after `work` multiplied rows of it.
int64_t boundary(int64_t work, int64_t count, int64_t result_rows) {
  const int64_t block = count * kGrainRows;
  return std::clamp<int64_t>((work + block - 1) / block * kGrainRows, 0, result_rows);
}

struct WeightProduct {
  const float* a;  // [rows, m]
  const float* b;  // [rows, n]
  float* c;        // [experts, m, n], c[e] = sum over chunks of a_e^T b_e
  int64_t m, n;
  float beta;  // 1: added to what c holds
};

// Rows [from, to) of an expert's result, chunk after chunk.
void weight_rows(const WeightProduct& p, const Groups& groups, int64_t expert, int64_t from, int64_t to) {
  float beta = p.beta;
  for (int64_t c = 0; c < groups.layout().chunks; ++c) {
    const Group& group = groups.at(expert, c);
    if (group.rows == 0) continue;
    gemm({.transpose_a = true,
          .m = to - from,
          .n = p.n,
          .k = group.rows,
          .a = p.a + group.start * p.m + from,
          .lda = p.m,
          .b = p.b + group.start * p.n,
          .ldb = p.n,
          .beta = beta,
          .c = p.c + (expert * p.m + from) * p.n,
          .ldc = p.n});
    beta = 1.0F;
  }
}

// The part of every expert's result that falls in [begin, end) of the work, counted in x rows times result rows.
void weight_part(const WeightProduct& p, const Groups& groups, int64_t begin, int64_t end) {
  int64_t first = 0;  // used rows before the expert's
  for (int64_t e = 0; e < groups.layout().experts; ++e) {
    const int64_t count = groups.used(e), before = first * p.m;
    first += count;
    if (count == 0) continue;
    const int64_t from = begin <= before ? 0 : boundary(begin - before, count, p.m);
    const int64_t to = end <= before ? 0 : boundary(end - before, count, p.m);
    if (from < to) weight_rows(p, groups, e, from, to);
  }
}

Prepared prepare_ragged_dot_weight(const ops::NodeView& view, int) {
  const bool transposed = view.attrs.flag("transpose_w");
  const Layout layout = layout_of(view.operands[0], view.operands[2]);
  const int64_t m = view.results[0].dim(1);
  const int64_t n = view.results[0].dim(2);
  const bool accumulates = view.operands.size() == 4;
  const auto run = [=](const KernelArgs& args) {
    const Groups groups(layout, args.in<int32_t>(2), args.scratch<Group>());
    if (accumulates && args.operands[3] != args.results[0])
      std::copy_n(args.in(3), layout.experts * m * n, args.out(0));
    const WeightProduct product = {.a = args.in(transposed ? 1 : 0),
                                   .b = args.in(transposed ? 0 : 1),
                                   .c = args.out(0),
                                   .m = m,
                                   .n = n,
                                   .beta = accumulates ? 1.0F : 0.0F};
    const int64_t work = groups.used() * m;
    const int64_t workers = args.pool.size();
    args.pool.run([&](int worker) {
      for (int64_t e = worker; e < layout.experts && !accumulates; e += workers)
        if (groups.used(e) == 0) std::fill_n(product.c + e * m * n, m * n, 0.0F);
      weight_part(product, groups, work * worker / workers, work * (worker + 1) / workers);
    });
  };
  return {run, layout.workspace_bytes()};
}

}  // namespace

Kernel ragged_dot_kernel() { return {.op = "ragged_dot", .prepare = prepare_ragged_dot}; }
Kernel ragged_dot_weight_kernel() { return {.op = "ragged_dot_weight", .prepare = prepare_ragged_dot_weight}; }

}  // namespace megacpp::runtime::cpu
