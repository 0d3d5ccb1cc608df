// SPDX-License-Identifier: Apache-2.0
// A task is one sequence and one block of channels; it walks the sequence position by position, backward from the end.
#include <algorithm>
#include <cmath>

#include "megacpp/machine/cpu/kernel.h"
#include "megacpp/machine/cpu/kernels/rg_lru_rows.h"
#include "megacpp/machine/cpu/kernels/scratch.h"
#include "megacpp/machine/cpu/simd.h"

namespace megacpp::runtime::cpu {
namespace {

constexpr int64_t kRgLruChannels = 64;  // of a block
constexpr int64_t kSpan = 16;           // positions summed before joining the total: keeps long sums accurate
constexpr float kDecayScale = 8.0F;

enum Operand : size_t { kX, kInputGate, kRecurrenceGate, kP, kH, kDh };
constexpr size_t kForwardOperands = 4, kGradOperands = 6;  // one more: continues [batch] or positions [batch, seq]

struct RgLruPlan {
  int64_t batch, seq, channels;  // batch: all leading dimensions
  int64_t per_worker;            // floats: scale, zeros, carry, sum, each [block of channels]
  int64_t partial_dp;            // offset of [batch, channels]; backward only
  size_t continues;              // operand; 0: absent
  size_t positions;              // operand; 0: absent

  int64_t blocks() const { return (channels + kRgLruChannels - 1) / kRgLruChannels; }
};

// One sequence and the channels [channel, channel + n).
struct Task {
  int64_t batch, channel, n;
  int64_t at;  // of position 0 in the operands
};

Task task_of(const RgLruPlan& plan, int64_t index) {
  const int64_t batch = index / plan.blocks(), channel = index % plan.blocks() * kRgLruChannels;
  return {batch, channel, std::min(kRgLruChannels, plan.channels - channel),
          batch * plan.seq * plan.channels + channel};
}

void fill_scale(const float* p, int64_t n, float* scale) {
  for (int64_t c = 0; c < n; ++c)
    scale[c] = kDecayScale * (std::max(p[c], 0.0F) + std::log1p(std::exp(-std::abs(p[c]))));
}

bool resets(const RgLruPlan& plan, const Task& task, const KernelArgs& args, int64_t t) {
  if (plan.positions != 0) return args.in<int32_t>(plan.positions)[task.batch * plan.seq + t] == 0;
  return t == 0 && (plan.continues == 0 || args.in(plan.continues)[task.batch] == 0.0F);
}

/// The states of a task's positions, and zeros before the first.
struct States {
  const float* h;  // of position 0
  const float* zeros;
};

// What position t takes for h of the position before: null has it reset the state.
const float* before(const RgLruPlan& plan, const Task& task, const KernelArgs& args, const States& states, int64_t t) {
  if (resets(plan, task, args, t)) return nullptr;
  return t == 0 ? states.zeros : states.h + (t - 1) * plan.channels;
}

void forward_task(const RgLruPlan& plan, const Task& task, const KernelArgs& args, float* scale) {
  fill_scale(args.in(kP) + task.channel, task.n, scale);
  row_fill(0.0F, scale + kRgLruChannels, task.n);
  const States states = {args.out(0) + task.at, scale + kRgLruChannels};
  for (int64_t t = 0; t < plan.seq; ++t) {
    const int64_t at = task.at + t * plan.channels;
    rg_lru_forward_row({.x = args.in(kX) + at,
                        .input_gate = args.in(kInputGate) + at,
                        .recurrence_gate = args.in(kRecurrenceGate) + at,
                        .scale = scale,
                        .previous = before(plan, task, args, states, t),
                        .h = args.out(0) + at},
                       task.n);
  }
}

void backward_task(const RgLruPlan& plan, const Task& task, const KernelArgs& args, float* scale) {
  const States states = {args.in(kH) + task.at, scale + kRgLruChannels};
  float* carry = scale + 2 * kRgLruChannels;
  float* sum = carry + kRgLruChannels;
  float* dscale = args.scratch() + plan.partial_dp + task.batch * plan.channels + task.channel;
  fill_scale(args.in(kP) + task.channel, task.n, scale);
  for (float* row : {scale + kRgLruChannels, carry, sum, dscale}) row_fill(0.0F, row, task.n);
  for (int64_t t = plan.seq - 1; t >= 0; --t) {
    const int64_t at = task.at + t * plan.channels;
    const float* previous = before(plan, task, args, states, t);
    rg_lru_backward_row({.x = args.in(kX) + at,
                         .input_gate = args.in(kInputGate) + at,
                         .recurrence_gate = args.in(kRecurrenceGate) + at,
                         .scale = scale,
                         .previous = previous,
                         .dh = args.in(kDh) + at,
                         .carry = carry,
                         .sum = sum,
                         .dx = args.out(0) + at,
                         .dinput_gate = args.out(1) + at,
                         .drecurrence_gate = args.out(2) + at},
                        task.n);
    if (previous == nullptr) row_fill(0.0F, carry, task.n);  // nothing reaches the document before
    if (t % kSpan == 0) {
      row_add(dscale, sum, dscale, task.n);
      row_fill(0.0F, sum, task.n);
    }
  }
}

void run_forward(const RgLruPlan& plan, const KernelArgs& args) {
  args.pool.for_each(plan.batch * plan.blocks(), [&](int64_t index, int worker) {
    forward_task(plan, task_of(plan, index), args, args.scratch() + worker * plan.per_worker);
  });
}

void run_backward(const RgLruPlan& plan, const KernelArgs& args) {
  args.pool.for_each(plan.batch * plan.blocks(), [&](int64_t index, int worker) {
    backward_task(plan, task_of(plan, index), args, args.scratch() + worker * plan.per_worker);
  });
  const float* dscale = args.scratch() + plan.partial_dp;
  float* dp = args.out(3);
  row_fill(0.0F, dp, plan.channels);
  for (int64_t b = 0; b < plan.batch; ++b) row_add(dp, dscale + b * plan.channels, dp, plan.channels);
  for (int64_t c = 0; c < plan.channels; ++c) dp[c] *= kDecayScale / (1.0F + std::exp(-args.in(kP)[c]));
}

RgLruPlan make_rg_lru_plan(const ops::NodeView& view, size_t operands) {
  const ir::TensorType& x = view.operands[kX];
  const int64_t seq = x.dim(-2), channels = x.dim(-1);
  const size_t last = view.operands.size() > operands ? operands : 0;
  const bool is_positions = last != 0 && view.operands[last].dtype == ir::DType::i32;
  return {.batch = x.elements() / std::max<int64_t>(1, seq * channels),
          .seq = seq,
          .channels = channels,
          .per_worker = 4 * kRgLruChannels,
          .partial_dp = 0,
          .continues = is_positions ? 0 : last,
          .positions = is_positions ? last : 0};
}

}  // namespace

Kernel rg_lru_kernel() {
  return {.op = "rg_lru", .prepare = [](const ops::NodeView& view, int threads) {
            const RgLruPlan plan = make_rg_lru_plan(view, kForwardOperands);
            ScratchPlan scratch;
            scratch.book(plan.per_worker * threads);
            return Prepared{[plan](const KernelArgs& args) { run_forward(plan, args); }, scratch.bytes()};
          }};
}

Kernel rg_lru_grad_kernel() {
  return {.op = "rg_lru_grad", .prepare = [](const ops::NodeView& view, int threads) {
            RgLruPlan plan = make_rg_lru_plan(view, kGradOperands);
            ScratchPlan scratch;
            scratch.book(plan.per_worker * threads);
            plan.partial_dp = scratch.book(plan.batch * plan.channels);
            return Prepared{[plan](const KernelArgs& args) { run_backward(plan, args); }, scratch.bytes()};
          }};
}

}  // namespace megacpp::runtime::cpu
