// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/row_grain.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

// Slots count the rows of their own chunk.
struct Chunks {
  int64_t choices;  // k
  int64_t tokens;   // l
  int64_t rows;     // of all experts
  int64_t width;    // h

  /// Where in y the row of a token's slot starts.
  int64_t row_start(int64_t token, int32_t slot) const { return (token / tokens * rows + slot) * width; }
};

Chunks chunks_of(const ir::TensorType& slots, const ir::TensorType& rows) {
  const int64_t width = rows.dim(-1);
  return {slots.dim(3), slots.dim(2), rows.elements() / (rows.dim(0) * rows.dim(1) * width), width};
}

// Works from the rows' side, through the inverse of the slot array, so that each row is written once: copied or zeroed.
Prepared prepare_dispatch(const ops::NodeView& view, int) {
  const bool weighted = view.operands.size() == 3;
  const Chunks chunks = chunks_of(view.operands[1], view.results[0]);
  const int64_t width = chunks.width;
  const int64_t all_choices = view.operands[1].elements();
  const int64_t rows = view.results[0].elements() / width;
  const auto run = [=](const KernelArgs& args) {
    const float* x = args.in(0);                             // [b, c, l, h]
    const int32_t* slot = args.in<int32_t>(1);               // [b, c, l, k]
    const float* weights = weighted ? args.in(2) : nullptr;  // [b, c, l, k]
    float* out = args.out(0);                                // [b, c, rows, h]
    int32_t* source = args.scratch<int32_t>();               // [b, c, rows], index into slot, or -1
    std::fill_n(source, rows, -1);
    for (int64_t i = 0; i < all_choices; ++i)
      if (slot[i] >= 0) source[i / chunks.choices / chunks.tokens * chunks.rows + slot[i]] = static_cast<int32_t>(i);
    args.pool.parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        float* to = out + row * width;
        if (source[row] < 0) {
          std::fill_n(to, width, 0.0F);
          continue;
        }
        const float* from = x + source[row] / chunks.choices * width;
        if (weighted) {
          row_scale(weights[source[row]], from, to, width);
        } else {
          std::copy_n(from, width, to);
        }
      }
    });
  };
  return {run, rows * static_cast<int64_t>(sizeof(int32_t))};
}

Prepared prepare_combine(const ops::NodeView& view, int) {
  const bool weighted = view.operands.size() >= 3, accumulates = view.operands.size() == 4;
  const Chunks chunks = chunks_of(view.operands[1], view.operands[0]);
  const int64_t choices = chunks.choices, width = chunks.width;
  const int64_t tokens = view.operands[1].elements() / choices;
  return {[=](const KernelArgs& args) {
    const float* y = args.in(0);                               // [b, c, rows, h]
    const int32_t* slot = args.in<int32_t>(1);                 // [b, c, l, k]
    const float* weights = weighted ? args.in(2) : nullptr;    // [b, c, l, k]
    const float* addend = accumulates ? args.in(3) : nullptr;  // [b, c, l, h]
    float* out = args.out(0);                                  // [b, c, l, h], perhaps the addend
    args.pool.parallel_for(tokens, row_grain(width * choices), [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        float* sum = out + t * width;
        bool empty = !accumulates;  // the first row is stored, the others added: no pass to zero the sum
        if (accumulates && addend != out) std::copy_n(addend + t * width, width, sum);
        for (int64_t i = t * choices; i < (t + 1) * choices; ++i) {
          if (slot[i] < 0) continue;
          const float* row = y + chunks.row_start(t, slot[i]);
          const float weight = weighted ? weights[i] : 1.0F;
          if (empty) {
            row_scale(weight, row, sum, width);
          } else {
            row_axpy(weight, row, sum, width);
          }
          empty = false;
        }
        if (empty) std::fill_n(sum, width, 0.0F);
      }
    });
  }};
}

Prepared prepare_slot_dots(const ops::NodeView& view, int) {
  const Chunks chunks = chunks_of(view.operands[2], view.operands[1]);
  const int64_t choices = chunks.choices, width = chunks.width;
  const int64_t tokens = view.operands[2].elements() / choices;
  return {[=](const KernelArgs& args) {
    const float* x = args.in(0);                // [b, c, l, h]
    const float* y = args.in(1);                // [b, c, rows, h]
    const int32_t* slot = args.in<int32_t>(2);  // [b, c, l, k]
    float* out = args.out(0);                   // [b, c, l, k]
    args.pool.parallel_for(tokens, row_grain(width * choices), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin * choices; i < end * choices; ++i) {
        const int64_t t = i / choices;
        out[i] = slot[i] < 0 ? 0.0F : row_dot(x + t * width, y + chunks.row_start(t, slot[i]), width);
      }
    });
  }};
}

}  // namespace

Kernel dispatch_kernel() { return {.op = "dispatch", .prepare = prepare_dispatch}; }
Kernel combine_kernel() { return {.op = "combine", .prepare = prepare_combine}; }
Kernel slot_dots_kernel() { return {.op = "slot_dots", .prepare = prepare_slot_dots}; }

}  // namespace megacpp::runtime::cpu
