// SPDX-License-Identifier: Apache-2.0
// linear_recurrence, rg_lru and its gradient: one block for each sequence and group of channels.
#include <string>

#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/kernels/floats.h"
#include "megacpp/machine/cuda/kernels/recurrence_params.h"
#include "megacpp/machine/cuda/toolbox.h"

namespace megacpp::runtime::cuda {
namespace {

constexpr int64_t kChannelLanes = 32;
constexpr size_t kRgLruOperands = 4, kRgLruGradOperands = 6;  // one more: continues [batch] or positions [batch, seq]

// Threads take two channels where all of them can.
int64_t recurrence_channels(const RecurrenceSizes& sizes) { return sizes.channels % 2 == 0 ? 2 : 1; }

Function recurrence_variant(Toolbox& toolbox, std::string_view op, std::string_view storage,
                            const RecurrenceSizes& sizes) {
  const std::string name =
      std::string(op) + "_" + std::string(storage) + "_" + std::to_string(recurrence_channels(sizes));
  return toolbox.function("recurrence", name);
}

LaunchShape recurrence_shape(const RecurrenceSizes& sizes) {
  const int64_t blocks = ceil_div(sizes.channels, kChannelLanes * recurrence_channels(sizes));
  return {.grid = {sizes.seq == 0 ? 0 : static_cast<uint32_t>(sizes.batch * blocks), 1, 1},
          .block = {kRecurrenceWarps * kChannelLanes, 1, 1}};
}

Prepared prepare_linear_recurrence(const ops::NodeView& view, Toolbox& toolbox) {
  const ir::TensorType& type = view.operands[1];
  const int64_t dim = view.attrs.integer("dim", 1), seq = type.dim(dim);
  const int64_t channels = ir::strides_of(type.shape)[static_cast<size_t>(dim)];
  const RecurrenceSizes sizes = {type.elements() / std::max<int64_t>(1, seq * channels), seq, channels};
  const Floats a = floats_at(view.operands, 0), x = floats_at(view.operands, 1), h = floats_at(view.results, 0);
  const int64_t reverse = view.attrs.flag("reverse") ? 1 : 0;
  const Function function =
      recurrence_variant(toolbox, "linear_recurrence", storage_name(storage_of({a, x, h})), sizes);
  return {[=](const Launch& l) {
    const LinearRecurrenceParams params = {
        .a = a.of(l.operands), .x = x.of(l.operands), .h = h.of(l.results), .sizes = sizes, .reverse = reverse};
    launch(function, recurrence_shape(sizes), l.stream, params);
  }};
}

// What rg_lru and its gradient read alike.
struct RgLru {
  enum Operand : size_t { kX, kInputGate, kRecurrenceGate, kP, kH, kDh };

  RecurrenceSizes sizes;
  Floats x, input_gate, recurrence_gate, p;
  Floats continues;  // where has_continues
  bool has_continues, has_positions;
  size_t last;  // operand: continues or positions

  RgLruParams params(const Launch& l, const FloatArray& h) const {
    return {.x = x.of(l.operands),
            .input_gate = input_gate.of(l.operands),
            .recurrence_gate = recurrence_gate.of(l.operands),
            .p = p.of(l.operands),
            .h = h,
            .sizes = sizes,
            .resets = {.positions = has_positions ? l.operands[last] : 0,
                       .continues = has_continues ? continues.of(l.operands) : FloatArray{0, 0}}};
  }
};

RgLru rg_lru_of(const ops::NodeView& view, size_t operands) {
  const ir::TensorType& type = view.operands[RgLru::kX];
  const int64_t seq = type.dim(-2), channels = type.dim(-1);
  const bool has_last = view.operands.size() > operands;
  const bool is_positions = has_last && view.operands[operands].dtype == ir::DType::i32;
  return {.sizes = {type.elements() / std::max<int64_t>(1, seq * channels), seq, channels},
          .x = floats_at(view.operands, RgLru::kX),
          .input_gate = floats_at(view.operands, RgLru::kInputGate),
          .recurrence_gate = floats_at(view.operands, RgLru::kRecurrenceGate),
          .p = floats_at(view.operands, RgLru::kP),
          .continues = has_last ? floats_at(view.operands, operands) : Floats{},
          .has_continues = has_last && !is_positions,
          .has_positions = is_positions,
          .last = operands};
}

Prepared prepare_rg_lru(const ops::NodeView& view, Toolbox& toolbox) {
  const RgLru v = rg_lru_of(view, kRgLruOperands);
  const Floats h = floats_at(view.results, 0);
  const std::string_view storage = storage_name(storage_of({v.x, v.input_gate, v.recurrence_gate, h}));
  const Function function = recurrence_variant(toolbox, "rg_lru", storage, v.sizes);
  return {
      [=](const Launch& l) { launch(function, recurrence_shape(v.sizes), l.stream, v.params(l, h.of(l.results))); }};
}

Prepared prepare_rg_lru_grad(const ops::NodeView& view, Toolbox& toolbox) {
  const RgLru v = rg_lru_of(view, kRgLruGradOperands);
  const Floats h = floats_at(view.operands, RgLru::kH), dh = floats_at(view.operands, RgLru::kDh);
  const Floats dx = floats_at(view.results, 0), dinput_gate = floats_at(view.results, 1);
  const Floats drecurrence_gate = floats_at(view.results, 2), dp = floats_at(view.results, 3);
  const std::string_view storage =
      storage_name(storage_of({v.x, v.input_gate, v.recurrence_gate, h, dh, dx, dinput_gate, drecurrence_gate}));
  const Function steps = recurrence_variant(toolbox, "rg_lru_grad", storage, v.sizes);
  const Function rate = toolbox.function("recurrence", "rg_lru_rate");
  return {[=](const Launch& l) {
    const RgLruGradParams params = {.forward = v.params(l, h.of(l.operands)),
                                    .dh = dh.of(l.operands),
                                    .dx = dx.of(l.results),
                                    .dinput_gate = dinput_gate.of(l.results),
                                    .drecurrence_gate = drecurrence_gate.of(l.results),
                                    .partial_dp = l.workspace};
    const LaunchShape shape = recurrence_shape(v.sizes);
    launch(steps, shape, l.stream, params);
    constexpr uint32_t kThreads = 128;
    const int64_t parts = v.sizes.seq == 0 ? 0 : v.sizes.batch;  // that were written
    launch(rate,
           {.grid = {static_cast<uint32_t>(ceil_div(v.sizes.channels, kThreads)), 1, 1}, .block = {kThreads, 1, 1}},
           l.stream,
           RgLruRateParams{.partial_dp = l.workspace,
                           .p = v.p.of(l.operands),
                           .dp = dp.of(l.results),
                           .batch = parts,
                           .channels = v.sizes.channels});
  }};
}

int64_t rg_lru_grad_workspace(const ops::NodeView& view) {
  const RecurrenceSizes sizes = rg_lru_of(view, kRgLruGradOperands).sizes;
  return sizes.batch * sizes.channels * static_cast<int64_t>(sizeof(float));
}

// A block walks the positions of its channels: nanoseconds to begin with, and of each position.
template <int start, int position>
double walk_of_positions(const ops::NodeView& view) {
  return 1e-9 * (start + position * static_cast<double>(view.operands[0].dim(-2)));
}

}  // namespace

Kernel linear_recurrence_kernel() { return {.op = "linear_recurrence", .prepare = prepare_linear_recurrence}; }
Kernel rg_lru_kernel() {
  return {.op = "rg_lru", .least_seconds = walk_of_positions<1'500, 45>, .prepare = prepare_rg_lru};
}
Kernel rg_lru_grad_kernel() {
  return {.op = "rg_lru_grad",
          .workspace_bytes = rg_lru_grad_workspace,
          .least_seconds = walk_of_positions<4'000, 64>,
          .prepare = prepare_rg_lru_grad};
}

}  // namespace megacpp::runtime::cuda
