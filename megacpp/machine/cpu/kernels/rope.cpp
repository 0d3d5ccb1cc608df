// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding; the result may stand in x's buffer.
#include <algorithm>

#include "megacpp/machine/cpu/kernel.h"

namespace megacpp::runtime::cpu {
namespace {

struct Rope {
  int64_t seq, heads, dim, half;
  float sign;  // of sin
};

// One position: `heads` rows of `dim`. `turned` holds 2 * half floats, so that y may be x.
void rotate(const Rope& rope, const float* x, const float* __restrict cos, const float* __restrict sin,
            float* __restrict turned, float* y) {
  for (int64_t head = 0; head < rope.heads; ++head, x += rope.dim, y += rope.dim) {
    const float* low = x;
    const float* high = x + rope.half;
    for (int64_t i = 0; i < rope.half; ++i) {
      const float s = rope.sign * sin[i];
      turned[i] = low[i] * cos[i] - high[i] * s;
      turned[rope.half + i] = high[i] * cos[i] + low[i] * s;
    }
    if (x != y) std::copy_n(x + 2 * rope.half, rope.dim - 2 * rope.half, y + 2 * rope.half);
    std::copy_n(turned, 2 * rope.half, y);
  }
}

int64_t scratch_floats(const Rope& rope) { return (2 * rope.half + 15) / 16 * 16; }

}  // namespace

Kernel rope_kernel() {
  return {.op = "rope", .prepare = [](const ops::NodeView& view, int threads) {
            const ir::TensorType& x = view.operands[0];
            const Rope rope{.seq = x.dim(1),
                            .heads = x.dim(2),
                            .dim = x.dim(3),
                            .half = view.operands[1].dim(1),
                            .sign = view.attrs.flag("inverse") ? -1.0F : 1.0F};
            const int64_t positions = x.dim(0) * rope.seq;
            const auto run = [rope, positions](const KernelArgs& args) {
              constexpr int64_t kGrain = 32;
              args.pool.parallel_for(positions, kGrain, [&](int64_t begin, int64_t end, int worker) {
                float* turned = args.scratch() + worker * scratch_floats(rope);
                for (int64_t at = begin; at < end; ++at) {
                  const int64_t row = at * rope.heads * rope.dim, table = at % rope.seq * rope.half;
                  rotate(rope, args.in(0) + row, args.in(1) + table, args.in(2) + table, turned, args.out(0) + row);
                }
              });
            };
            return Prepared{.run = run,
                            .workspace_bytes = threads * scratch_floats(rope) * static_cast<int64_t>(sizeof(float))};
          }};
}

}  // namespace megacpp::runtime::cpu
