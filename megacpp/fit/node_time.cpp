// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/node_time.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "megacpp/ir/dtype.h"

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

double seconds_at(double work, double rate) { return rate > 0 ? work / rate : 0; }

/// Attention has the width of its heads last.
int64_t last_dim(const ops::Types& operands) {
  return operands.empty() || operands[0].shape.empty() ? 0 : operands[0].shape.back();
}

// XLA for TPUs makes operands of products inside these. Where nothing was measured, what is predicted is the roofline,
// which no rule about kernels enters.
bool has_parts_in_memory(const hw::Chip& device) {
  return device.kind == hw::ChipKind::gpu && device.reached.is_known();
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
  const std::optional<NodeUse>& use = run.use;
  const std::string_view dtype = view.operands.empty() ? "f32" : ir::dtype_name(view.operands[0].dtype);
  const ops::Cost own = op.cost(view);
  const ops::Cost cost = run.compiler == Compiler::xla && op.cost_by_xla ? op.cost_by_xla(view) : own;
  const double at_peak = (use ? use->rows : 1) * cost.flops / matrix_rate(device, dtype).flops_per_second;
  const double once = use ? use->bytes : bytes_of(view.operands) + bytes_of(view.results);
  // Elementwise programs find what was just made near; what other kernels do beside reading and writing has no rate,
  // and takes as long as if they did not.
  const bool is_near = use && op.work != ops::Work::traffic;
  const double once_moved = is_near ? use->seconds : once / device.memory_bytes_per_second;
  const double traffic = once_moved + own.bytes / device.memory_bytes_per_second;
  const hw::ScoreRates& scores = op.work == ops::Work::attention_grad ? device.score_grads : device.scores;
  double arithmetic = at_peak / share_of_peak(device, op.work, last_dim(view.operands)) +
                      seconds_at(cost.exponentials, scores.exponentials) + seconds_at(cost.rows, scores.rows) +
                      seconds_at(cost.positions, device.ssd_positions_per_second);
  if (op.work == ops::Work::product) arithmetic += seconds_at(once, device.product_bytes_per_second);
  // What rates of arithmetic were measured on was near.
  if (use) arithmetic += (op.work == ops::Work::product ? device.product_wait : 1) * use->waiting;
  const double between = has_parts_in_memory(device) ? cost.bytes : own.bytes;
  const double moved = (once_moved + between / device.memory_bytes_per_second) / known_or_all(device.reached.traffic);
  // Kernels of this machine read a tile, compute and write it, one after the other.
  const double elementwise =
      op.work == ops::Work::elementwise ? seconds_at(cost.flops, device.elementwise_per_second) : 0;
  const double launch = run.shares_launch ? 0 : device.reached.launch;
  return {.seconds = std::max({arithmetic, moved + elementwise, run.least_seconds}) + launch,
          .limit = std::max(at_peak, traffic),
          .arithmetic = at_peak,
          .arithmetic_bound = std::max(arithmetic, elementwise) > moved};
}

double slowed_beside(const hw::Chip& device, double seconds, double beside) {
  const double share = known_or_all(device.reached.beside_collectives);
  const double done = beside * share;
  return seconds <= done ? seconds / share : beside + (seconds - done);
}

}  // namespace megacpp::fit
