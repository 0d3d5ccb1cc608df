// SPDX-License-Identifier: Apache-2.0
// General products as (batched) matrix products, without copies when each side is already a matrix: batch dimensions
// lead in the same order on both sides, and free and contracted dimensions form two contiguous groups. Other layouts
// are transposed into the workspace first.
#include <cstring>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/cpu/gemm.h"
#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/transposer.h"
#include "megacpp/program/ops/dot_dims.h"

namespace megacpp::runtime::cpu {
namespace {

using Dims = std::vector<int64_t>;

int64_t product_of(const ir::TensorType& type, const Dims& dims) {
  int64_t size = 1;
  for (const int64_t d : dims) size *= type.dim(d);
  return size;
}

Dims concat(const Dims& a, const Dims& b, const Dims& c) {
  Dims all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

bool is_ascending_from_zero(const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// How one side is read as [batch, rows, columns]. `transposed`: columns come first in memory.
struct Side {
  bool transposed = false;
  bool needs_copy = false;
  Dims copy_order;  // permutation that makes it a matrix
};

// `rows` and `columns` as the product wants them: m x k on the left, k x n on the right.
Side read_side(const Dims& batch, const Dims& rows, const Dims& columns) {
  if (is_ascending_from_zero(concat(batch, rows, columns))) return {};
  if (is_ascending_from_zero(concat(batch, columns, rows)))
    return {.transposed = true, .needs_copy = false, .copy_order = {}};
  return {.transposed = false, .needs_copy = true, .copy_order = concat(batch, rows, columns)};
}

struct Shape {
  int64_t batch, m, n, k;
};

struct Plan {
  Shape size;
  Side lhs, rhs;
  Transposer lhs_copy, rhs_copy;
  int64_t rhs_copy_offset = 0;  // bytes into the workspace
  bool has_addend = false;
  int64_t result_bytes = 0;
};

void multiply(const Plan& plan, const float* a, const float* b, float* c, const KernelArgs& args) {
  const int64_t batch = plan.size.batch, m = plan.size.m, n = plan.size.n, k = plan.size.k;
  const auto product = [&](int64_t i) {
    return Gemm{.transpose_a = plan.lhs.transposed,
                .transpose_b = plan.rhs.transposed,
                .m = m,
                .n = n,
                .k = k,
                .a = a + i * m * k,
                .lda = plan.lhs.transposed ? m : k,
                .b = b + i * k * n,
                .ldb = plan.rhs.transposed ? k : n,
                .beta = plan.has_addend ? 1.0F : 0.0F,
                .c = c + i * m * n,
                .ldc = n};
  };
  // Enough batches keep every thread busy with whole products; a few large ones are split inside instead.
  if (batch >= 2 * args.pool.size()) {
    args.pool.for_each(batch, [&](int64_t i, int) { gemm(product(i)); });
  } else {
    for (int64_t i = 0; i < batch; ++i) parallel_gemm(product(i), args.pool);
  }
}

void run(const Plan& plan, const KernelArgs& args) {
  const float *a = args.in(0), *b = args.in(1);
  if (plan.lhs.needs_copy) {
    plan.lhs_copy.run(a, args.scratch(), args.pool);
    a = args.scratch();
  }
  if (plan.rhs.needs_copy) {
    plan.rhs_copy.run(b, args.scratch(plan.rhs_copy_offset), args.pool);
    b = args.scratch(plan.rhs_copy_offset);
  }
  if (plan.has_addend && args.operands[2] != args.results[0])
    std::memcpy(args.results[0], args.operands[2], static_cast<size_t>(plan.result_bytes));
  multiply(plan, a, b, args.out(0), args);
}

Prepared prepare_dot(const ops::NodeView& view, int) {
  const ir::TensorType &lhs = view.operands[0], &rhs = view.operands[1];
  const ops::DotSides dims = ops::dot_sides(view.attrs, lhs, rhs);
  Plan plan;
  plan.size = {product_of(lhs, dims.lhs.batch), product_of(lhs, dims.lhs.free), product_of(rhs, dims.rhs.free),
               product_of(lhs, dims.lhs.contract)};
  plan.lhs = read_side(dims.lhs.batch, dims.lhs.free, dims.lhs.contract);
  plan.rhs = read_side(dims.rhs.batch, dims.rhs.contract, dims.rhs.free);
  plan.has_addend = view.operands.size() == 3;
  plan.result_bytes = view.results[0].bytes();
  int64_t workspace = 0;
  if (plan.lhs.needs_copy) {
    plan.lhs_copy = Transposer(lhs.shape, plan.lhs.copy_order);
    workspace += (lhs.bytes() + 63) / 64 * 64;
  }
  if (plan.rhs.needs_copy) {
    plan.rhs_copy = Transposer(rhs.shape, plan.rhs.copy_order);
    plan.rhs_copy_offset = workspace;
    workspace += rhs.bytes();
  }
  return {.run = [plan](const KernelArgs& args) { run(plan, args); }, .workspace_bytes = workspace};
}

}  // namespace

Kernel dot_kernel() { return {.op = "dot", .prepare = prepare_dot}; }

}  // namespace megacpp::runtime::cpu
