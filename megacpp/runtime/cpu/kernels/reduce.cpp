// SPDX-License-Identifier: Apache-2.0
// Reductions over any dimensions, and running sums. Trailing sums are usually fused with their producer and never come
// here; what comes is mostly the sum over leading dimensions: gradients of biases and broadcast operands.
#include <algorithm>
#include <limits>

#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/simd.h"
#include "megacpp/runtime/cpu/transposer.h"

namespace megacpp::runtime::cpu {
namespace {

// After a permutation that brings reduced dimensions to the front, the tensor is [reduced, kept].
struct Plan {
  bool needs_copy = false;
  bool rows_kept = false;  // already [kept, reduced]: each row folds to a number
  Transposer to_front;
  int64_t kept = 1, reduced = 1;
  bool sum = true;
};

void fold_rows(const Plan& plan, const float* x, float* y, base::ThreadPool& pool) {
  pool.parallel_for(plan.kept, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, plan.reduced)),
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t i = begin; i < end; ++i) {
                        const float* row = x + i * plan.reduced;
                        y[i] = plan.sum ? row_sum(row, plan.reduced) : row_max_value(row, plan.reduced);
                      }
                    });
}

// Threads own columns, so the order of additions does not depend on their number.
void fold_columns(const Plan& plan, const float* x, float* y, base::ThreadPool& pool) {
  constexpr int64_t kColumns = 64;
  pool.parallel_for(plan.kept, kColumns, [&](int64_t begin, int64_t end, int) {
    const int64_t n = end - begin;
    row_fill(plan.sum ? 0.0F : -std::numeric_limits<float>::infinity(), y + begin, n);
    for (int64_t r = 0; r < plan.reduced; ++r) {
      const float* row = x + r * plan.kept + begin;
      if (plan.sum)
        row_add(y + begin, row, y + begin, n);
      else
        row_max(y + begin, row, y + begin, n);
    }
  });
}

Prepared prepare_reduce(const ops::NodeView& view, int) {
  const ir::TensorType& type = view.operands[0];
  const auto& dims = view.attrs.list("dims");
  std::vector<int64_t> kept, order = dims;
  for (int64_t d = 0; d < type.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(d);
  order.insert(order.end(), kept.begin(), kept.end());
  Plan plan;
  plan.sum = view.attrs.text("kind") == "sum";
  plan.kept = view.results[0].elements();
  plan.reduced = plan.kept == 0 ? 0 : type.elements() / plan.kept;
  plan.rows_kept = kept.empty() || dims.empty() || kept.back() < dims.front();
  plan.needs_copy = !plan.rows_kept && !std::is_sorted(order.begin(), order.end());
  if (plan.needs_copy) plan.to_front = Transposer(type.shape, order);
  const int64_t workspace = plan.needs_copy ? type.bytes() : 0;
  return {.run =
              [plan](const KernelArgs& args) {
                const float* x = args.in(0);
                if (plan.needs_copy) {
                  plan.to_front.run(x, args.scratch(), args.pool);
                  x = args.scratch();
                }
                if (plan.rows_kept)
                  fold_rows(plan, x, args.out(0), args.pool);
                else
                  fold_columns(plan, x, args.out(0), args.pool);
              },
          .workspace_bytes = workspace};
}

Prepared prepare_cumsum(const ops::NodeView& view, int) {
  const ir::TensorType& type = view.operands[0];
  const int64_t dim = view.attrs.integer("dim"), size = type.dim(dim);
  const int64_t inner = ir::strides_of(type.shape)[static_cast<size_t>(dim)];
  const int64_t outer = type.elements() / std::max<int64_t>(1, size * inner);
  const bool reverse = view.attrs.flag("reverse");
  return {.run = [=](const KernelArgs& args) {
    args.pool.parallel_for(outer, std::max<int64_t>(1, 8192 / (size * inner)), [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        for (int64_t t = 0; t < size; ++t) {
          const int64_t at = (o * size + (reverse ? size - 1 - t : t)) * inner;
          const int64_t before = at + (reverse ? inner : -inner);
          if (t == 0)
            row_scale(1.0F, args.in(0) + at, args.out(0) + at, inner);
          else
            row_add(args.in(0) + at, args.out(0) + before, args.out(0) + at, inner);
        }
      }
    });
  }};
}

base::Decision only_f32(const ops::NodeView& view) {
  if (ir::is_float(view.operands[0].dtype)) return base::Decision::yes();
  return base::Decision::no("integer elements");
}

}  // namespace

Kernel reduce_kernel() { return {.op = "reduce", .prepare = prepare_reduce, .supports = only_f32}; }
Kernel cumsum_kernel() { return {.op = "cumsum", .prepare = prepare_cumsum, .supports = only_f32}; }

}  // namespace megacpp::runtime::cpu
