// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/kernels/ssd_tasks.h"

#include <algorithm>

#include "megacpp/machine/cpu/simd.h"
#include "megacpp/program/ops/ssd_chunks.h"

namespace megacpp::runtime::cpu {
namespace {

// Longer chunks only add work inside the chunk, and the result does not depend on the length.
constexpr int64_t kLongestChunk = 64;
// A state row of this many columns keeps the products efficient and the states of a task in the second-level cache.
constexpr int64_t kMostColumns = 1024;

// The fewest blocks that keep all threads busy to the end.
int64_t choose_head_blocks(const SsdShape& v, int threads) {
  for (int64_t blocks = 1; blocks < v.heads_per_group(); ++blocks) {
    const int64_t tasks = v.batch * v.groups * blocks;
    const int64_t columns = (v.heads_per_group() + blocks - 1) / blocks * v.head_dim;
    if (columns <= kMostColumns && (tasks % threads == 0 || tasks >= 4 * threads)) return blocks;
  }
  return std::max<int64_t>(1, v.heads_per_group());
}

void sum_log_decays(const SsdDecay& d) {
  double sum = 0;
  for (int64_t i = 0; i < d.rows; ++i) {
    sum += static_cast<double>(d.dt[i * d.stride]) * static_cast<double>(d.rate);
    d.sums[i] = sum;
  }
}

}  // namespace

SsdShape ssd_shape(const ops::NodeView& view, int threads) {
  const ir::TensorType& x = view.operands[0];
  const ir::TensorType& b = view.operands[3];
  const int64_t per_sequence = x.dim(-3) * x.dim(-2) * x.dim(-1);
  SsdShape v{.batch = x.elements() / std::max<int64_t>(1, per_sequence),
             .seq = x.dim(-3),
             .heads = x.dim(-2),
             .head_dim = x.dim(-1),
             .groups = b.dim(-2),
             .state = b.dim(-1),
             .length = 0,
             .chunks = 0,
             .head_blocks = 1,
             .positions = 0};
  const size_t operands = view.results.size() == 1 ? ops::kSsdOperands : ops::kSsdGradOperands;
  if (view.operands.size() > operands) v.positions = operands;
  v.length = std::min({view.attrs.integer("chunk"), kLongestChunk, v.seq});
  v.chunks = (v.seq + v.length - 1) / v.length;
  v.head_blocks = choose_head_blocks(v, threads);
  return v;
}

SsdTask ssd_task(const SsdShape& v, int64_t index) {
  SsdTask task;
  task.block = index % v.head_blocks;
  task.group = index / v.head_blocks % v.groups;
  task.batch = index / v.head_blocks / v.groups;
  const int64_t begin = v.heads_per_group() * task.block / v.head_blocks;
  const int64_t end = v.heads_per_group() * (task.block + 1) / v.head_blocks;
  task.head = task.group * v.heads_per_group() + begin;
  task.heads = end - begin;
  return task;
}

SsdSpan ssd_span(const SsdShape& v, const SsdTask& task, int64_t chunk) {
  const int64_t first = chunk * v.length, position = task.batch * v.seq + first;
  return {.rows = std::min(v.length, v.seq - first),
          .row = position,
          .x = position * v.x_stride() + task.head * v.head_dim,
          .dt = position * v.heads + task.head,
          .b = position * v.b_stride() + task.group * v.state};
}

void decay_from_start(const SsdDecay& d, float* from_start) {
  sum_log_decays(d);
  for (int64_t i = 0; i < d.rows; ++i) from_start[i] = static_cast<float>(d.sums[i]);
  row_exp(from_start, from_start, d.rows);
  for (int64_t i = 0; d.positions != nullptr && i < d.rows; ++i)
    if (d.positions[i] <= i) from_start[i] = 0;
}

void decay_of_added(const SsdDecay& d, float* added) {
  sum_log_decays(d);
  for (int64_t i = 0; i < d.rows; ++i) added[i] = static_cast<float>(d.sums[d.rows - 1] - d.sums[i]);
  row_exp(added, added, d.rows);
  const int64_t last = d.rows - 1;
  if (d.positions != nullptr) std::fill_n(added, std::max<int64_t>(0, last - d.positions[last]), 0.0F);
  for (int64_t i = 0; i < d.rows; ++i) added[i] *= d.dt[i * d.stride];
}

void decay_of_pairs(const SsdDecay& d, float* pairs) {
  sum_log_decays(d);
  for (int64_t i = 0; i < d.rows; ++i) {
    float* row = pairs + packed_row(i);
    for (int64_t j = 0; j <= i; ++j) row[j] = static_cast<float>(d.sums[i] - d.sums[j]);
  }
  row_exp(pairs, pairs, packed_row(d.rows));
  for (int64_t i = 0; d.positions != nullptr && i < d.rows; ++i)
    std::fill_n(pairs + packed_row(i), std::max<int64_t>(0, i - d.positions[i]), 0.0F);
}

void scale_rows(const float* factor, const float* in, int64_t in_stride, float* out, int64_t out_stride, int64_t rows,
                int64_t n) {
  for (int64_t t = 0; t < rows; ++t) row_scale(factor[t], in + t * in_stride, out + t * out_stride, n);
}

void decay_state(const float* whole, const SsdTask& task, const SsdShape& v, float* row, float* state) {
  const int64_t columns = task.heads * v.head_dim;
  for (int64_t h = 0; h < task.heads; ++h) row_fill(whole[h], row + h * v.head_dim, v.head_dim);
  for (int64_t n = 0; n < v.state; ++n) row_mul(row, state + n * columns, state + n * columns, columns);
}

}  // namespace megacpp::runtime::cpu
