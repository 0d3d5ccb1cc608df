// SPDX-License-Identifier: Apache-2.0
// Channels are vectors and independent; time is sequential. A task is one sequence and one block of channels.
#include <algorithm>
#include <cstring>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kChannels = 64;

struct Recurrence {
  int64_t batch, seq, channels;  // before, along and after the dimension it runs along
  bool reverse;
};

// a, x, h: the block's first channel at position 0; n channels. h may be x.
void scan(const Recurrence& v, const float* a, const float* x, float* h, int64_t n) {
  const float* previous = nullptr;
  for (int64_t step = 0; step < v.seq; ++step) {
    const int64_t at = (v.reverse ? v.seq - 1 - step : step) * v.channels;
    std::memmove(h + at, x + at, static_cast<size_t>(n) * sizeof(float));
    if (previous != nullptr) row_mul_add(a + at, previous, h + at, n);
    previous = h + at;
  }
}

void run_recurrence(const Recurrence& v, const KernelArgs& args) {
  const int64_t blocks = (v.channels + kChannels - 1) / kChannels;
  args.pool.parallel_for(v.batch * blocks, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t channel = task % blocks * kChannels;
      const int64_t at = task / blocks * v.seq * v.channels + channel;
      scan(v, args.in(0) + at, args.in(1) + at, args.out(0) + at, std::min(kChannels, v.channels - channel));
    }
  });
}

}  // namespace

Kernel linear_recurrence_kernel() {
  return {.op = "linear_recurrence", .prepare = [](const ops::NodeView& view, int) {
            const ir::TensorType& x = view.operands[1];
            const int64_t dim = view.attrs.integer("dim", 1), seq = x.dim(dim);
            const int64_t channels = ir::strides_of(x.shape)[static_cast<size_t>(dim)];
            const int64_t batch = x.elements() / std::max<int64_t>(1, seq * channels);
            const Recurrence v{batch, seq, channels, view.attrs.flag("reverse")};
            return Prepared{[v](const KernelArgs& args) { run_recurrence(v, args); }, 0};
          }};
}

}  // namespace megacpp::runtime::cpu
