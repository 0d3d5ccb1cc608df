// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/partial_sums.h"

#include <cstdint>
#include <utility>

#include "megacpp/core/ir/axis_sets.h"
#include "megacpp/program/partition/lower_reshard.h"

namespace megacpp::partition {
namespace {

using ir::Axes;
using ir::Sharding;
using ops::Linearity;

bool grows(const ops::NodeView& view, size_t operand) {
  return view.results[0].elements() > view.operands[operand].elements();
}

}  // namespace

WantedOperands PartialSums::wanted_operands(const VisitedNode& visited, const FactorAxes& axes) const {
  const auto& [node, op, view, factors] = visited;
  WantedOperands wanted;
  for (const ops::DimFactors& dims : factors.operands) wanted.operands.push_back(to_sharding(axes, dims));
  wanted.operands.resize(node.operands.size());
  const Linearity linearity = op.linear ? op.linear(view) : Linearity{};
  if (linearity.kind == Linearity::Kind::no) return wanted;
  const Axes used = used_axes(axes);
  if (linearity.kind == Linearity::Kind::each) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (linearity.covers(i) && !partial_of(node.operands[i], used).empty() && !grows(view, i) &&
          (best == SIZE_MAX || view.operands[i].bytes() > view.operands[best].bytes()))
        best = i;
    if (best == SIZE_MAX) return wanted;
    wanted.partial = wanted.operands[best].unreduced = partial_of(node.operands[best], used);
    return wanted;
  }
  Addition addition{.node = node, .linearity = linearity};
  find_axes(addition, view, used);
  wanted.partial = addition.shared;
  if (addition.shared != addition.all) {
    const Sharding result = to_sharding(axes, factors.results[0]);
    if (must_wait(addition, wanted.operands, result)) wanted.partial = addition.all;
  }
  for (size_t i = 0; i < node.operands.size(); ++i)
    if (linearity.covers(i)) wanted.operands[i].unreduced = wanted.partial;
  return wanted;
}

Axes PartialSums::partial_of(ir::ValueId operand, const Axes& used) const {
  return ir::minus(values_[operand].preferred.unreduced, used);
}

void PartialSums::find_axes(Addition& addition, const ops::NodeView& view, const Axes& used) const {
  Axes shared, all;
  bool first = true;
  for (size_t i = 0; i < addition.node.operands.size(); ++i) {
    const ir::ValueId operand = addition.node.operands[i];
    if (!addition.linearity.covers(i) || adapts(operand)) continue;
    const Axes own = partial_of(operand, used);
    if (!own.empty() && grows(view, i)) return;
    shared = first ? own : ir::minus(shared, ir::minus(shared, own));
    all = ir::merged(all, own);
    first = false;
  }
  addition.shared = std::move(shared);
  addition.all = std::move(all);
}

// Operands that are partial over different axes are added up now, down to the axes they share; or each becomes
// partial over all of them, which is free, and their sum is added up once, later. Whichever sends less. At equal
// bytes it waits where a linear op reads it, with which more may come; else it is whole rather than in two forms.
bool PartialSums::must_wait(const Addition& addition, const std::vector<Sharding>& operands,
                            const Sharding& result) const {
  const ir::Node& node = addition.node;
  const auto bytes = [&](const Axes& partial) {
    double sum = bytes_after_sum(node.results[0], {.dims = result.dims, .unreduced = partial});
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (addition.linearity.covers(i) && !adapts(node.operands[i]))
        sum +=
            static_cast<double>(values_.bytes_to(node.operands[i], {.dims = operands[i].dims, .unreduced = partial}));
    return sum;
  };
  const double now = bytes(addition.shared), later = bytes(addition.all);
  return now == later ? end(node.results[0]).next == SumEnd::Next::linear : later < now;
}

// What a chip sends until the value is sharded as the one reshard that it reaches wants it, or what is left of it is
// whole.
double PartialSums::bytes_after_sum(ir::ValueId value, const Sharding& from) const {
  Sharding to{.dims = from.dims};
  const SumEnd& sum_end = end(value);
  if (sum_end.reshard) to = reshard_target(global_.node(*sum_end.reshard), from, mesh_);
  const ir::TensorType& whole = global_.type(value);
  return sum_end.left * static_cast<double>(sent_bytes(plan_reshard(from, to, whole.shape, mesh_), from, whole, mesh_));
}

// Zeros are partial sums of anything, and an input of free sharding becomes what is added to it.
bool PartialSums::adapts(ir::ValueId value) const {
  const ir::Node& node = global_.producer(value);
  if (node.op == "constant") return node.attrs.real("value") == 0.0;
  return node.op == ir::kInputOp && values_[value].flexible;
}

}  // namespace megacpp::partition
