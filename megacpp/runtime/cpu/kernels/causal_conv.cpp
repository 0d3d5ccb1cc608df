// SPDX-License-Identifier: Apache-2.0
// Rows of channels are the vectors: the weight is turned to [K, c] first, then every tap is one multiply-add of rows.
#include <algorithm>

#include "megacpp/runtime/cpu/kernel.h"
#include "megacpp/runtime/cpu/kernels/scratch.h"
#include "megacpp/runtime/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

struct Conv {
  int64_t batch, seq, channels, width;  // batch: all leading dimensions
  bool reverse;

  // The position that tap k reads for result position t.
  int64_t source(int64_t t, int64_t k) const { return reverse ? t + (width - 1) - k : t - (width - 1) + k; }
  bool inside(int64_t t) const { return t >= 0 && t < seq; }
};

Conv conv_of(const ir::TensorType& x, int64_t width, const ir::Attrs& attrs) {
  const int64_t seq = x.dim(-2), channels = x.dim(-1);
  return {x.elements() / std::max<int64_t>(1, seq * channels), seq, channels, width, attrs.flag("reverse")};
}

void run_conv(const Conv& v, const KernelArgs& args) {
  constexpr int64_t kRows = 16;  // positions a thread takes at least
  const float* w = args.in(1);   // [c, K]
  float* taps = args.scratch();  // [K, c]
  for (int64_t c = 0; c < v.channels; ++c)
    for (int64_t k = 0; k < v.width; ++k) taps[k * v.channels + c] = w[c * v.width + k];
  const float* x = args.in(0);
  float* y = args.out(0);
  args.pool.parallel_for(v.batch * v.seq, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t t = row % v.seq;
      // The last tap reads position t itself, which is always inside.
      row_mul(taps + (v.width - 1) * v.channels, x + row * v.channels, y + row * v.channels, v.channels);
      for (int64_t k = 0; k + 1 < v.width; ++k) {
        const int64_t from = v.source(t, k);
        if (!v.inside(from)) continue;
        row_mul_add(taps + k * v.channels, x + (row - t + from) * v.channels, y + row * v.channels, v.channels);
      }
    }
  });
}

constexpr int64_t kWeightSpan = 64;  // positions summed before joining the total: keeps long sums accurate

// Channels [begin, end): sum and total are [K, end - begin].
void weight_of_channels(const Conv& v, const KernelArgs& args, int64_t begin, int64_t end, float* sum, float* total) {
  const float* x = args.in(0);
  const float* dy = args.in(1);
  const int64_t n = end - begin;
  row_fill(0.0F, total, v.width * n);
  for (int64_t b = 0; b < v.batch; ++b)
    for (int64_t first = 0; first < v.seq; first += kWeightSpan) {
      row_fill(0.0F, sum, v.width * n);
      for (int64_t t = first; t < std::min(v.seq, first + kWeightSpan); ++t)
        for (int64_t k = 0; k < v.width; ++k) {
          const int64_t from = v.source(t, k);
          if (!v.inside(from)) continue;
          row_mul_add(x + (b * v.seq + from) * v.channels + begin, dy + (b * v.seq + t) * v.channels + begin,
                      sum + k * n, n);
        }
      row_add(total, sum, total, v.width * n);
    }
  float* dw = args.out(0);  // [c, K]
  for (int64_t c = begin; c < end; ++c)
    for (int64_t k = 0; k < v.width; ++k) dw[c * v.width + k] = total[k * n + c - begin];
}

void run_weight(const Conv& v, int64_t part, const KernelArgs& args) {
  constexpr int64_t kGrain = 16;  // channels
  args.pool.parallel_for(v.channels, kGrain, [&](int64_t begin, int64_t end, int worker) {
    float* scratch = args.scratch() + worker * 2 * part;
    weight_of_channels(v, args, begin, end, scratch, scratch + part);
  });
}

}  // namespace

Kernel causal_conv_kernel() {
  return {.op = "causal_conv", .prepare = [](const ops::NodeView& view, int) {
            const Conv v = conv_of(view.operands[0], view.operands[1].dim(1), view.attrs);
            ScratchPlan plan;
            plan.book(v.width * v.channels);
            return Prepared{[v](const KernelArgs& args) { run_conv(v, args); }, plan.bytes()};
          }};
}

Kernel causal_conv_weight_kernel() {
  return {
      .op = "causal_conv_weight", .prepare = [](const ops::NodeView& view, int threads) {
        const Conv v = conv_of(view.operands[0], view.attrs.integer("width"), view.attrs);
        ScratchPlan plan;
        plan.book(v.width * v.channels);
        const int64_t part = plan.floats();
        return Prepared{[v, part](const KernelArgs& args) { run_weight(v, part, args); }, 2 * plan.bytes() * threads};
      }};
}

}  // namespace megacpp::runtime::cpu
