// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/dot_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/program/ops/dot_dims.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr size_t kMostCalls = 256;  // beyond, launches would take longer than a plain kernel

// Parts of a split sum, as many as pay for small results, each as large as the result in f32.
constexpr int64_t kSplitParts = 32;
constexpr int64_t kLargestWorkspace = 32 << 20;

// Whether `inner` goes on where a step of `outer` begins, for all three.
bool joins(const DotAxis& outer, const DotAxis& inner) {
  return outer.lhs == inner.lhs * inner.size && outer.rhs == inner.rhs * inner.size &&
         outer.out == inner.out * inner.size;
}

std::vector<DotAxis> joined(const std::vector<DotAxis>& axes) {
  std::vector<DotAxis> result;
  for (const DotAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!result.empty() && joins(result.back(), axis)) {
      const int64_t size = result.back().size * axis.size;
      result.back() = axis;
      result.back().size = size;
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

// The axes of one matrix product, and those around it: all but the matrix's own rows and columns.
struct MatrixAxes {
  DotAxis m, n, k;
  std::vector<DotAxis> around;
};

bool is_smaller(const DotAxis& x, const DotAxis& y) { return x.size < y.size; }

// Of the left side's free axes: the one whose elements are neighbours where what is contracted has none, else the
// largest.
std::vector<DotAxis>::iterator matrix_rows(std::vector<DotAxis>& rows, const DotAxis& k) {
  if (k.size > 1 && k.lhs != 1) {
    const auto neighbours = std::find_if(rows.begin(), rows.end(), [](const DotAxis& axis) { return axis.lhs == 1; });
    if (neighbours != rows.end()) return neighbours;
  }
  return std::max_element(rows.begin(), rows.end(), is_smaller);
}

std::optional<MatrixAxes> matrix_axes(const DotAxes& axes) {
  if (axes.k.size() > 1) return std::nullopt;
  MatrixAxes result;
  result.around = axes.batch;
  if (!axes.k.empty()) result.k = axes.k[0];
  std::vector<DotAxis> rows = axes.m, columns = axes.n;
  if (!rows.empty()) {
    const auto chosen = matrix_rows(rows, result.k);
    result.m = *chosen;
    rows.erase(chosen);
  }
  if (!columns.empty()) {  // the result's own neighbours
    result.n = columns.back();
    columns.pop_back();
  }
  result.around.insert(result.around.end(), rows.begin(), rows.end());
  result.around.insert(result.around.end(), columns.begin(), columns.end());
  return result;
}

// A side of `fast` x `slow` elements as a matrix: as it is where `fast` are neighbours, else transposed.
struct StoredSide {
  bool transposed;
  int64_t rows, columns, leading;
};

struct SideAxis {
  int64_t size, stride;
};

std::optional<StoredSide> stored_as(SideAxis fast, SideAxis slow) {
  const auto leading = [](SideAxis across, int64_t rows) { return across.size == 1 ? rows : across.stride; };
  if ((fast.stride == 1 || fast.size == 1) && leading(slow, fast.size) >= fast.size)
    return StoredSide{false, fast.size, slow.size, leading(slow, fast.size)};
  if ((slow.stride == 1 || slow.size == 1) && leading(fast, slow.size) >= slow.size)
    return StoredSide{true, slow.size, fast.size, leading(fast, slow.size)};
  return std::nullopt;
}

// Every combination of the axes' indices, as bytes from the beginnings.
std::vector<DotCall> calls_over(const std::vector<DotAxis>& axes, int64_t side_bytes, int64_t out_bytes) {
  std::vector<DotCall> calls = {{}};
  for (const DotAxis& axis : axes) {
    std::vector<DotCall> longer;
    for (const DotCall& call : calls)
      for (int64_t i = 0; i < axis.size; ++i)
        longer.push_back({call.lhs + i * axis.lhs * side_bytes, call.rhs + i * axis.rhs * side_bytes,
                          call.out + i * axis.out * out_bytes});
    calls = std::move(longer);
  }
  return calls;
}

// Of every address, where the beginning has kAlignment.
int64_t alignment_of(const std::vector<DotCall>& calls, int64_t DotCall::*offset) {
  int64_t alignment = kAlignment;
  for (const DotCall& call : calls) alignment = std::gcd(alignment, call.*offset);
  return alignment;
}

int64_t product_workspace(const LtProblem& problem) {
  const int64_t result = problem.d.rows * problem.d.columns * problem.d.batch * ir::dtype_bytes(ir::DType::f32);
  return std::min(kLargestWorkspace, (kSplitParts * result + kAlignment - 1) / kAlignment * kAlignment);
}

// cuBLASLt has no product of f32 sides that leaves bf16.
bool has_dtypes(const ops::NodeView& view) {
  return view.operands[0].dtype == ir::DType::bf16 || view.results[0].dtype == ir::DType::f32;
}

std::optional<DotCalls> calls_of(const ops::NodeView& view, const DotAxes& axes) {
  std::optional<MatrixAxes> matrix = matrix_axes(axes);
  if (!matrix || !has_dtypes(view)) return std::nullopt;
  const DotAxis &m = matrix->m, &n = matrix->n, &k = matrix->k;
  const std::optional<StoredSide> rhs = stored_as({n.size, n.rhs}, {k.size, k.rhs});
  const std::optional<StoredSide> lhs = stored_as({k.size, k.lhs}, {m.size, m.lhs});
  if (!rhs || !lhs) return std::nullopt;
  DotAxis batch;
  if (!matrix->around.empty()) {
    const auto largest = std::max_element(matrix->around.begin(), matrix->around.end(), is_smaller);
    batch = *largest;
    matrix->around.erase(largest);
  }
  int64_t count = 1;
  for (const DotAxis& axis : matrix->around) count *= axis.size;
  if (count > static_cast<int64_t>(kMostCalls)) return std::nullopt;
  const ir::DType side = view.operands[0].dtype, out = view.results[0].dtype;
  DotCalls result;
  result.calls = calls_over(matrix->around, ir::dtype_bytes(side), ir::dtype_bytes(out));
  result.problem = {.a = {side, rhs->rows, rhs->columns, rhs->leading, batch.size, batch.rhs,
                          alignment_of(result.calls, &DotCall::rhs)},
                    .b = {side, lhs->rows, lhs->columns, lhs->leading, batch.size, batch.lhs,
                          alignment_of(result.calls, &DotCall::lhs)},
                    .d = {out, n.size, m.size, m.size == 1 ? n.size : m.out, batch.size, batch.out,
                          alignment_of(result.calls, &DotCall::out)},
                    .transpose_a = rhs->transposed,
                    .transpose_b = lhs->transposed,
                    .accumulates = view.operands.size() == 3};
  result.problem.workspace_bytes = product_workspace(result.problem);
  return result;
}

}  // namespace

DotAxes dot_axes(const ops::NodeView& view) {
  const ir::TensorType &lhs = view.operands[0], &rhs = view.operands[1];
  const ops::DotSides dims = ops::dot_sides(view.attrs, lhs, rhs);
  const ir::Shape lhs_strides = ir::strides_of(lhs.shape), rhs_strides = ir::strides_of(rhs.shape);
  const ir::Shape out_strides = ir::strides_of(view.results[0].shape);
  const auto stride = [](const ir::Shape& strides, int64_t dim) { return strides[static_cast<size_t>(dim)]; };
  DotAxes axes;
  size_t out = 0;
  for (size_t i = 0; i < dims.lhs.batch.size(); ++i)
    axes.batch.push_back({lhs.dim(dims.lhs.batch[i]), stride(lhs_strides, dims.lhs.batch[i]),
                          stride(rhs_strides, dims.rhs.batch[i]), out_strides[out++]});
  for (const int64_t d : dims.lhs.free) axes.m.push_back({lhs.dim(d), stride(lhs_strides, d), 0, out_strides[out++]});
  for (const int64_t d : dims.rhs.free) axes.n.push_back({rhs.dim(d), 0, stride(rhs_strides, d), out_strides[out++]});
  for (size_t i = 0; i < dims.lhs.contract.size(); ++i)
    axes.k.push_back({lhs.dim(dims.lhs.contract[i]), stride(lhs_strides, dims.lhs.contract[i]),
                      stride(rhs_strides, dims.rhs.contract[i]), 0});
  // Sums do not depend on the order of what is contracted.
  std::sort(axes.k.begin(), axes.k.end(), [](const DotAxis& x, const DotAxis& y) { return x.lhs > y.lhs; });
  return {joined(axes.batch), joined(axes.m), joined(axes.n), joined(axes.k)};
}

DotPlan plan_dot(const ops::NodeView& view) {
  DotPlan plan;
  plan.axes = dot_axes(view);
  plan.calls = calls_of(view, plan.axes);
  return plan;
}

}  // namespace megacpp::runtime::cuda
