// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/node_time.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "megacpp/core/ir/dtype.h"

namespace megacpp::fit {
namespace {

double bytes_of(const ops::Types& types) {
  double bytes = 0;
  for (const ir::TensorType& type : types) bytes += static_cast<double>(type.bytes());
  return bytes;
}

double known_or_all(double share) { return share > 0 ? share : 1; }

double share_at_width(const std::map<int64_t, double>& by_width, int64_t width, double unknown) {
  if (by_width.empty()) return unknown;
  const auto wider = by_width.upper_bound(width);
  return wider == by_width.begin() ? wider->second : std::prev(wider)->second;
}

/// Attention has the width of its heads last.
int64_t last_dim(const ops::Types& operands) {
  return operands.empty() || operands[0].shape.empty() ? 0 : operands[0].shape.back();
}

// XLA for chips whose memory has tiles makes operands of products inside these. Where nothing was measured, what is
// predicted is the roofline, which no rule about kernels enters.
bool has_parts_in_memory(const hw::Chip& device) {
  return !device.is_virtual() && !device.tiling.exists() && device.reached.is_known();
}

}  // namespace

// Products run at the rate of what they multiply; a chip without a rate for it multiplies in its own widest way.
MatrixRate matrix_rate(const hw::Chip& chip, std::string_view dtype) {
  for (const std::string_view name : {dtype, std::string_view("tf32"), std::string_view("bf16")})
    if (const auto peak = chip.peak(name)) return {.dtype = std::string(name), .flops_per_second = *peak};
  if (chip.peak_flops.empty()) return {.dtype = {}, .flops_per_second = 1};
  const auto& [name, rate] = *chip.peak_flops.begin();
  return {.dtype = name, .flops_per_second = rate};
}

double share_of_peak(const hw::Chip& chip, ops::Work work, int64_t head_width) {
  const hw::Reached& reached = chip.reached;
  const double products = known_or_all(reached.products);
  switch (work) {
    case ops::Work::attention:
      return share_at_width(reached.attention, head_width, products);
    case ops::Work::attention_grad:
      return share_at_width(reached.attention_grad, head_width, products);
    case ops::Work::ssd:
      return reached.ssd > 0 ? reached.ssd : products;
    case ops::Work::product:
    case ops::Work::traffic:
    case ops::Work::elementwise:
      break;
  }
  return products;
}

NodeTime node_time(const hw::Chip& device, const ops::OpDef& op, const ops::NodeView& view, const NodeRun& run) {
  const std::string_view dtype = ir::record(view.operands.empty() ? ir::DType::f32 : view.operands[0].dtype).rate;
  const ops::Cost own = op.cost(view);
  const ops::Cost cost = run.compiler == Compiler::xla && op.cost_by_xla ? op.cost_by_xla(view) : own;
  const double at_peak = cost.flops / matrix_rate(device, dtype).flops_per_second;
  const double once = bytes_of(view.operands) + bytes_of(view.results);
  const double between = has_parts_in_memory(device) ? cost.bytes : own.bytes;
  const double traffic = (once + own.bytes) / device.memory_bytes_per_second;
  const double arithmetic = at_peak / share_of_peak(device, op.work, last_dim(view.operands));
  const double moved = (once + between) / device.memory_bytes_per_second / known_or_all(device.reached.traffic);
  const double launch = run.shares_launch ? 0 : device.reached.launch;
  return {.seconds = std::max({arithmetic, moved, run.least_seconds}) + launch,
          .limit = std::max(at_peak, traffic),
          .arithmetic = at_peak,
          .arithmetic_bound = arithmetic > moved};
}

double slowed_beside(const hw::Chip& device, double seconds, double beside) {
  const double share = known_or_all(device.reached.beside_collectives);
  const double done = beside * share;
  return seconds <= done ? seconds / share : beside + (seconds - done);
}

}  // namespace megacpp::fit
