// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/row_grain.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kColumnGrain = 64;

Prepared prepare_take(const ops::NodeView& view, int) {
  const int64_t count = view.operands[1].elements();
  const int64_t table_rows = view.operands[0].dim(0), width = view.operands[0].dim(1);
  const int64_t grain = row_grain(width);
  return {[=](const KernelArgs& args) {
    const float* table = args.in(0);           // [v, h]
    const int32_t* ids = args.in<int32_t>(1);  // [...]
    float* out = args.out(0);                  // [..., h]
    args.pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float* row = out + i * width;
        if (ids[i] == table_rows)
          std::fill_n(row, width, 0.0F);
        else
          std::copy_n(table + ids[i] * width, width, row);
      }
    });
  }};
}

// Threads share the columns, not the rows: popular ids then cost every thread the same, and sums keep their order.
Prepared prepare_scatter_add(const ops::NodeView& view, int) {
  const int64_t count = view.operands[0].elements();
  const int64_t table_rows = view.results[0].dim(0), width = view.results[0].dim(1);
  const int64_t total = view.results[0].elements();
  return {[=](const KernelArgs& args) {
    const int32_t* ids = args.in<int32_t>(0);  // [...]
    const float* rows = args.in(1);            // [..., h]
    float* table = args.out(0);                // [v, h]
    args.pool.parallel_for(total, row_grain(1),
                           [&](int64_t begin, int64_t end, int) { std::fill(table + begin, table + end, 0.0F); });
    args.pool.parallel_for(width, kColumnGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = 0; i < count; ++i) {
        if (ids[i] == table_rows) continue;
        float* sum = table + ids[i] * width + begin;
        row_add(sum, rows + i * width + begin, sum, end - begin);
      }
    });
  }};
}

}  // namespace

Kernel take_kernel() { return {.op = "take", .prepare = prepare_take}; }
Kernel scatter_add_kernel() { return {.op = "scatter_add", .prepare = prepare_scatter_add}; }

}  // namespace megacpp::runtime::cpu
