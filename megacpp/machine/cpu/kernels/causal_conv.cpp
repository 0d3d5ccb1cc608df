// SPDX-License-Identifier: Apache-2.0
// Rows of channels are the vectors: the weight is turned to [K, c] first, then every tap is one multiply-add of rows.
#include <algorithm>
#include <cstdlib>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/scratch.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

struct Conv {
  int64_t batch, seq, channels, width;  // batch: all leading dimensions
  bool reverse;
  bool has_positions;  // as the third operand

  // The position that tap k reads for result position t.
  int64_t source(int64_t t, int64_t k) const { return reverse ? t + (width - 1) - k : t - (width - 1) + k; }
  /// Whether the tokens t and `from` of a sequence are both there and in one document; `positions`: of the sequence.
  bool counts(int64_t t, int64_t from, const int32_t* positions) const {
    if (from < 0 || from >= seq) return false;
    return positions == nullptr || positions[std::max(t, from)] >= std::abs(t - from);
  }
  const int32_t* positions(const KernelArgs& args, int64_t sequence) const {
    return has_positions ? args.in<int32_t>(2) + sequence * seq : nullptr;
  }
};

Conv conv_of(const ops::NodeView& view, int64_t width) {
  const ir::TensorType& x = view.operands[0];
  const int64_t seq = x.dim(-2), channels = x.dim(-1);
  return {.batch = x.elements() / std::max<int64_t>(1, seq * channels),
          .seq = seq,
          .channels = channels,
          .width = width,
          .reverse = view.attrs.flag("reverse"),
          .has_positions = view.operands.size() > 2};
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
      const int32_t* positions = v.positions(args, row / v.seq);
      // The last tap reads position t itself, which is always inside.
      row_mul(taps + (v.width - 1) * v.channels, x + row * v.channels, y + row * v.channels, v.channels);
      for (int64_t k = 0; k + 1 < v.width; ++k) {
        const int64_t from = v.source(t, k);
        if (!v.counts(t, from, positions)) continue;
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
          if (!v.counts(t, from, v.positions(args, b))) continue;
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
            const Conv v = conv_of(view, view.operands[1].dim(1));
            ScratchPlan plan;
            plan.book(v.width * v.channels);
            return Prepared{[v](const KernelArgs& args) { run_conv(v, args); }, plan.bytes()};
          }};
}

Kernel causal_conv_weight_kernel() {
  return {
      .op = "causal_conv_weight", .prepare = [](const ops::NodeView& view, int threads) {
        const Conv v = conv_of(view, view.attrs.integer("width"));
        ScratchPlan plan;
        plan.book(v.width * v.channels);
        const int64_t part = plan.floats();
        return Prepared{[v, part](const KernelArgs& args) { run_weight(v, part, args); }, 2 * plan.bytes() * threads};
      }};
}

}  // namespace megacpp::runtime::cpu
