// SPDX-License-Identifier: Apache-2.0
// Reductions over any dimensions, and running sums. Trailing sums are usually fused with their producer and never come
// here; what comes is mostly the sum over leading dimensions: gradients of biases and broadcast operands.
#include <algorithm>
#include <limits>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/scratch.h"
#include "megacpp/machine/cpu/row_grain.h"
#include "megacpp/machine/cpu/simd.h"
#include "megacpp/machine/cpu/transposer.h"

namespace megacpp::runtime::cpu {
namespace {

// The innermost dimensions that are reduced fold first, row by row; then the rows of what is left, seen as
// [reduced, kept], add up. Where kept dimensions stand before reduced ones, these are brought to the front in between.
struct ReducePlan {
  bool needs_copy = false;
  Transposer to_front;
  int64_t inner = 1, kept = 1, reduced = 1;
  int64_t blocks = 1;     // of the rows, each summed by itself
  int64_t part = 0;       // floats from the sums of a block to those of the next
  int64_t folded_at = 0;  // floats into the workspace
  int64_t sorted_at = 0;  //
  int64_t parts_at = 0;   //
  bool sum = true;
};

constexpr int64_t kColumns = 64;          // that a thread adds at least
constexpr int64_t kColumnsOfPart = 4096;  // and at most, of one block of rows

void fold_rows(const ReducePlan& plan, const float* x, float* y, base::ThreadPool& pool) {
  pool.parallel_for(plan.reduced * plan.kept, row_grain(plan.inner), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* row = x + i * plan.inner;
      y[i] = plan.sum ? row_sum(row, plan.inner) : row_max_value(row, plan.inner);
    }
  });
}

/// From row `begin` to row `end`, `stride` apart.
struct Rows {
  const float* x;
  int64_t stride, begin, end;
};

void add_rows(const ReducePlan& plan, const Rows& rows, int64_t column, int64_t columns, float* y) {
  row_fill(plan.sum ? 0.0F : -std::numeric_limits<float>::infinity(), y, columns);
  for (int64_t row = rows.begin; row < rows.end; ++row)
    (plan.sum ? row_add : row_max)(y, rows.x + row * rows.stride + column, y, columns);
}

void add_all_rows(const ReducePlan& plan, const Rows& rows, const KernelArgs& args) {
  args.pool.parallel_for(plan.kept, kColumns, [&](int64_t begin, int64_t end, int) {
    add_rows(plan, rows, begin, end - begin, args.out(0) + begin);
  });
}

// How rows and columns are cut depends on their numbers alone, and a thread adds all rows of a part: so the order of
// additions depends on no thread.
void fold_columns(const ReducePlan& plan, const float* x, const KernelArgs& args) {
  if (plan.blocks == 1) return add_all_rows(plan, {x, plan.kept, 0, plan.reduced}, args);
  float* const sums = args.scratch() + plan.parts_at;
  const int64_t across = (plan.kept + kColumnsOfPart - 1) / kColumnsOfPart;
  args.pool.for_each(plan.blocks * across, [&](int64_t part, int) {
    const int64_t block = part / across, column = part % across * kColumnsOfPart;
    const Rows rows{x, plan.kept, plan.reduced * block / plan.blocks, plan.reduced * (block + 1) / plan.blocks};
    add_rows(plan, rows, column, std::min(kColumnsOfPart, plan.kept - column), sums + block * plan.part + column);
  });
  add_all_rows(plan, {sums, plan.part, 0, plan.blocks}, args);
}

void run_reduce(const ReducePlan& plan, const KernelArgs& args) {
  const float* x = args.in(0);
  const bool has_rows = plan.reduced != 1;
  if (plan.inner != 1 || !has_rows) {
    float* const folded = has_rows ? args.scratch() + plan.folded_at : args.out(0);
    fold_rows(plan, x, folded, args.pool);
    x = folded;
  }
  if (plan.needs_copy) {
    float* const sorted = args.scratch() + plan.sorted_at;
    plan.to_front.run(x, sorted, args.pool);
    x = sorted;
  }
  if (has_rows) fold_columns(plan, x, args);
}

Prepared prepare_reduce(const ops::NodeView& view, int) {
  constexpr int64_t kRowsOfBlock = 64, kMostBlocks = 32, kLine = 16;  // floats in 64 bytes, which no two threads write
  const ir::TensorType& type = view.operands[0];
  const auto& dims = view.attrs.list("dims");
  const auto is_reduced = [&](int64_t d) { return std::ranges::find(dims, d) != dims.end(); };
  int64_t outer = type.rank();  // dimensions that are not of the innermost reduced ones
  ReducePlan plan;
  for (; outer > 0 && is_reduced(outer - 1); --outer) plan.inner *= type.dim(outer - 1);
  std::vector<int64_t> order, kept;  // of dimensions with more than one element
  ir::Shape rows;
  for (int64_t d = 0; d < outer; ++d) {
    if (type.dim(d) == 1) continue;
    (is_reduced(d) ? order : kept).push_back(static_cast<int64_t>(rows.size()));
    (is_reduced(d) ? plan.reduced : plan.kept) *= type.dim(d);
    rows.push_back(type.dim(d));
  }
  order.insert(order.end(), kept.begin(), kept.end());
  plan.sum = view.attrs.text("kind") == "sum";
  plan.blocks = std::clamp<int64_t>(plan.reduced / kRowsOfBlock, 1, kMostBlocks);
  plan.part = (plan.kept + kLine - 1) / kLine * kLine;
  plan.needs_copy = type.elements() > 0 && !std::ranges::is_sorted(order);
  ScratchPlan scratch;
  if (plan.inner != 1) plan.folded_at = scratch.book(plan.reduced * plan.kept);
  if (plan.needs_copy) {
    plan.to_front = Transposer(rows, order);
    plan.sorted_at = scratch.book(plan.reduced * plan.kept);
  }
  if (plan.blocks > 1) plan.parts_at = scratch.book(plan.blocks * plan.part);
  return {.run = [plan](const KernelArgs& args) { run_reduce(plan, args); }, .workspace_bytes = scratch.bytes()};
}

Prepared prepare_cumsum(const ops::NodeView& view, int) {
  const ir::TensorType& type = view.operands[0];
  const int64_t dim = view.attrs.integer("dim"), size = type.dim(dim);
  const int64_t inner = ir::strides_of(type.shape)[static_cast<size_t>(dim)];
  const int64_t outer = type.elements() / std::max<int64_t>(1, size * inner);
  const bool reverse = view.attrs.flag("reverse");
  return {.run = [=](const KernelArgs& args) {
    args.pool.parallel_for(outer, row_grain(size * inner), [&](int64_t begin, int64_t end, int) {
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
