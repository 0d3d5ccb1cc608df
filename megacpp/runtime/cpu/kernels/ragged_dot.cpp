// SPDX-License-Identifier: Apache-2.0
// One matrix product per expert. Experts are of uneven size, so threads share the work, not the experts.
#include <algorithm>

#include "megacpp/runtime/cpu/gemm.h"
#include "megacpp/runtime/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kGrainRows = 16;  // what the micro-kernel of the matrix product fills

struct Sizes {
  int64_t rows, experts, h, f;  // x[rows, h], w[experts, h, f]
  bool transposed;              // w[experts, f, h]
};

int64_t sum(const int32_t* counts, int64_t experts) {
  int64_t total = 0;
  for (int64_t e = 0; e < experts; ++e) total += counts[e];
  return total;
}

// The product for the rows [begin, end), which may cross experts.
void dot_rows(const Sizes& s, const KernelArgs& args, int64_t begin, int64_t end) {
  const int32_t* counts = args.in<int32_t>(2);
  int64_t first = 0;  // of the expert
  for (int64_t e = 0; e < s.experts; first += counts[e], ++e) {
    const int64_t from = std::max(begin, first);
    const int64_t to = std::min(end, first + counts[e]);
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

Prepared prepare_ragged_dot(const ops::NodeView& view, int) {
  const Sizes s = {.rows = view.operands[0].dim(0),
                   .experts = view.operands[2].dim(0),
                   .h = view.operands[0].dim(1),
                   .f = view.results[0].dim(1),
                   .transposed = view.attrs.flag("transpose_w")};
  return {[s](const KernelArgs& args) {
    const int64_t used = sum(args.in<int32_t>(2), s.experts);
    args.pool.parallel_for(used, kGrainRows, [&](int64_t begin, int64_t end, int) { dot_rows(s, args, begin, end); });
    std::fill(args.out(0) + used * s.f, args.out(0) + s.rows * s.f, 0.0F);
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
};

// The part of every expert's result that falls in [begin, end) of the work, counted in x rows times result rows.
void weight_part(const WeightProduct& p, const int32_t* counts, int64_t experts, int64_t begin, int64_t end) {
  int64_t first = 0;  // of the expert
  for (int64_t e = 0; e < experts; first += counts[e], ++e) {
    if (counts[e] == 0) continue;
    const int64_t from = begin <= first * p.m ? 0 : boundary(begin - first * p.m, counts[e], p.m);
    const int64_t to = end <= first * p.m ? 0 : boundary(end - first * p.m, counts[e], p.m);
    if (from >= to) continue;
    gemm({.transpose_a = true,
          .m = to - from,
          .n = p.n,
          .k = counts[e],
          .a = p.a + first * p.m + from,
          .lda = p.m,
          .b = p.b + first * p.n,
          .ldb = p.n,
          .c = p.c + (e * p.m + from) * p.n,
          .ldc = p.n});
  }
}

Prepared prepare_ragged_dot_weight(const ops::NodeView& view, int) {
  const bool transposed = view.attrs.flag("transpose_w");
  const int64_t experts = view.operands[2].dim(0);
  const int64_t m = view.results[0].dim(1);
  const int64_t n = view.results[0].dim(2);
  return {[=](const KernelArgs& args) {
    const int32_t* counts = args.in<int32_t>(2);
    const WeightProduct product = {
        .a = args.in(transposed ? 1 : 0), .b = args.in(transposed ? 0 : 1), .c = args.out(0), .m = m, .n = n};
    const int64_t work = sum(counts, experts) * m;
    const int64_t workers = args.pool.size();
    args.pool.run([&](int worker) {
      for (int64_t e = worker; e < experts; e += workers)
        if (counts[e] == 0) std::fill_n(product.c + e * m * n, m * n, 0.0F);
      weight_part(product, counts, experts, work * worker / workers, work * (worker + 1) / workers);
    });
  }};
}

}  // namespace

Kernel ragged_dot_kernel() { return {.op = "ragged_dot", .prepare = prepare_ragged_dot}; }
Kernel ragged_dot_weight_kernel() { return {.op = "ragged_dot_weight", .prepare = prepare_ragged_dot_weight}; }

}  // namespace megacpp::runtime::cpu
