// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

// In place only the rows that change are touched: one thread has them written before others were woken.
Prepared prepare_cache_update(const ops::NodeView& view, int) {
  const ir::TensorType& cache = view.operands[0];
  const int64_t batch = cache.dim(0), slots = cache.dim(1), rows = view.operands[1].dim(1), total = cache.bytes();
  const int64_t row_bytes = total / (batch * slots);
  return {[=](const KernelArgs& args) {
    const std::byte* const written = args.operands[1];       // [b, c, ..]
    const int32_t* const slot_labels = args.in<int32_t>(2);  // [t]
    const int32_t* const row_labels = args.in<int32_t>(3);   // [c]
    std::byte* const after = args.results[0];                // [b, t, ..]
    if (after != args.operands[0]) std::memcpy(after, args.operands[0], static_cast<size_t>(total));
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t row = std::find(row_labels, row_labels + rows, slot_labels[slot]) - row_labels;
      if (row == rows) continue;
      for (int64_t b = 0; b < batch; ++b)
        std::memcpy(after + (b * slots + slot) * row_bytes, written + (b * rows + row) * row_bytes,
                    static_cast<size_t>(row_bytes));
    }
  }};
}

}  // namespace

Kernel cache_update_kernel() {
  return {.op = "cache_update", .prepare = prepare_cache_update, .supports = {}, .takes_any_storage = true};
}

}  // namespace megacpp::runtime::cpu
