// SPDX-License-Identifier: Apache-2.0
// One matrix product per expert. Experts are of uneven size, so threads share the work, not the experts.
#include <algorithm>

#include "megacpp/runtime/cpu/gemm.h"
#include "megacpp/runtime/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kGrainRows = 16;  // what the micro-kernel of the matrix product fills

// How rows belong to experts: packed one group behind the other, or each in its own `capacity` places.
struct Groups {
  const int32_t* counts;
  int64_t experts;
  int64_t capacity;  // 0: packed

  int64_t rows(int64_t e) const { return capacity > 0 ? std::min<int64_t>(counts[e], capacity) : counts[e]; }
  /// Where the group starts, given the rows used by the groups before it.
  int64_t start(int64_t e, int64_t used_before) const { return capacity > 0 ? e * capacity : used_before; }
  int64_t used() const {
    int64_t total = 0;
    for (int64_t e = 0; e < experts; ++e) total += rows(e);
    return total;
  }
};

struct Sizes {
  int64_t rows, experts, h, f;  // x[rows, h], w[experts, h, f]
  int64_t capacity;
  bool transposed;  // w[experts, f, h]
};

// The product for the used rows [begin, end), counted over all groups; they may cross experts.
void dot_rows(const Sizes& s, const Groups& groups, const KernelArgs& args, int64_t begin, int64_t end) {
  int64_t first = 0;  // used rows before the expert's
  for (int64_t e = 0; e < s.experts; first += groups.rows(e), ++e) {
    const int64_t shift = groups.start(e, first) - first;
    const int64_t from = std::max(begin, first) + shift;
    const int64_t to = std::min(end, first + groups.rows(e)) + shift;
    if (from >= to) continue;
    gemm({.transpose_b = s.transposed,
          .m = to - from,
          .n = s.f,
          .k = s.h,
          .a = args.in(0) + from * s.h,
          .lda = s.h,
          .b = args.in(1) + e * s.h * s.f,
          .ldb = s.transposed ? s.h : s.f,
          .c = args.out(0) + from * s.f,
          .ldc = s.f});
  }
}

void zero_unused_rows(const Sizes& s, const Groups& groups, float* out) {
  int64_t end = 0;  // of the group before
  for (int64_t e = 0; e < s.experts; ++e) {
    const int64_t start = groups.start(e, end);
    std::fill(out + end * s.f, out + start * s.f, 0.0F);
    end = start + groups.rows(e);
  }
  std::fill(out + end * s.f, out + s.rows * s.f, 0.0F);
}

Prepared prepare_ragged_dot(const ops::NodeView& view, int) {
  const Sizes s = {.rows = view.operands[0].dim(0),
                   .experts = view.operands[2].dim(0),
                   .h = view.operands[0].dim(1),
                   .f = view.results[0].dim(1),
                   .capacity = view.attrs.integer("capacity", 0),
                   .transposed = view.attrs.flag("transpose_w")};
  return {[s](const KernelArgs& args) {
    const Groups groups{args.in<int32_t>(2), s.experts, s.capacity};
    args.pool.parallel_for(groups.used(), kGrainRows,
                           [&](int64_t begin, int64_t end, int) { dot_rows(s, groups, args, begin, end); });
    zero_unused_rows(s, groups, args.out(0));
  }};
}

// The first result row of an expert with `count` x rows that starts at or after `work` multiplied rows of it.
int64_t boundary(int64_t work, int64_t count, int64_t result_rows) {
  const int64_t block = count * kGrainRows;
  return std::clamp<int64_t>((work + block - 1) / block * kGrainRows, 0, result_rows);
}

struct WeightProduct {
  const float* a;  // [rows, m]
  const float* b;  // [rows, n]
  float* c;        // [experts, m, n], c[e] = a_e^T b_e
  int64_t m, n;
  float beta;  // 1: added to what c holds
};

// The part of every expert's result that falls in [begin, end) of the work, counted in x rows times result rows.
void weight_part(const WeightProduct& p, const Groups& groups, int64_t begin, int64_t end) {
  int64_t first = 0;  // used rows before the expert's
  for (int64_t e = 0; e < groups.experts; first += groups.rows(e), ++e) {
    const int64_t count = groups.rows(e), row = groups.start(e, first);
    if (count == 0) continue;
    const int64_t from = begin <= first * p.m ? 0 : boundary(begin - first * p.m, count, p.m);
    const int64_t to = end <= first * p.m ? 0 : boundary(end - first * p.m, count, p.m);
    if (from >= to) continue;
    gemm({.transpose_a = true,
          .m = to - from,
          .n = p.n,
          .k = count,
          .a = p.a + row * p.m + from,
          .lda = p.m,
          .b = p.b + row * p.n,
          .ldb = p.n,
          .beta = p.beta,
          .c = p.c + (e * p.m + from) * p.n,
          .ldc = p.n});
  }
}

Prepared prepare_ragged_dot_weight(const ops::NodeView& view, int) {
  const bool transposed = view.attrs.flag("transpose_w");
  const int64_t experts = view.operands[2].dim(0);
  const int64_t m = view.results[0].dim(1);
  const int64_t n = view.results[0].dim(2);
  const int64_t capacity = view.attrs.integer("capacity", 0);
  const bool accumulates = view.operands.size() == 4;
  return {[=](const KernelArgs& args) {
    const Groups groups{args.in<int32_t>(2), experts, capacity};
    if (accumulates && args.operands[3] != args.results[0]) std::copy_n(args.in(3), experts * m * n, args.out(0));
    const WeightProduct product = {.a = args.in(transposed ? 1 : 0),
                                   .b = args.in(transposed ? 0 : 1),
                                   .c = args.out(0),
                                   .m = m,
                                   .n = n,
                                   .beta = accumulates ? 1.0F : 0.0F};
    const int64_t work = groups.used() * m;
    const int64_t workers = args.pool.size();
    args.pool.run([&](int worker) {
      for (int64_t e = worker; e < experts && !accumulates; e += workers)
        if (groups.rows(e) == 0) std::fill_n(product.c + e * m * n, m * n, 0.0F);
      weight_part(product, groups, work * worker / workers, work * (worker + 1) / workers);
    });
  }};
}

}  // namespace

Kernel ragged_dot_kernel() { return {.op = "ragged_dot", .prepare = prepare_ragged_dot}; }
Kernel ragged_dot_weight_kernel() { return {.op = "ragged_dot_weight", .prepare = prepare_ragged_dot_weight}; }

}  // namespace megacpp::runtime::cpu
