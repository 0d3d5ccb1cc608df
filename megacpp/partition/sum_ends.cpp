// SPDX-License-Identifier: Apache-2.0
#include "megacpp/partition/sum_ends.h"

#include "megacpp/ops/op_def.h"

namespace megacpp::partition {
namespace {

bool is_linear(const ir::Graph& graph, const ir::Node& node, size_t operand) {
  const ops::OpDef& op = ops::op_def(node.op);
  if (!op.linear || node.results.size() != 1) return false;
  const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
  const ops::Linearity linearity = op.linear({operands, results, node.attrs});
  return linearity.kind != ops::Linearity::Kind::no && linearity.covers(operand) &&
         results[0].elements() <= operands[operand].elements();
}

// Through a linear op to what is behind it.
SumEnd through(const ir::TensorType& operand, const ir::TensorType& result, const SumEnd& behind) {
  const double left = static_cast<double>(result.elements()) / static_cast<double>(operand.elements());
  return {SumEnd::Next::linear, operand == result ? behind.reshard : std::nullopt, left * behind.left};
}

// Of the nodes from `first` on, whose values begin at `values`; `readings` counts from there. Last node first.
void sweep(const ir::Graph& graph, uint32_t first, uint32_t values, const std::vector<size_t>& readings,
           std::vector<SumEnd>& ends) {
  for (uint32_t n = static_cast<uint32_t>(graph.nodes().size()); n-- > first;) {
    const ir::Node& node = graph.nodes()[n];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ir::ValueId operand = node.operands[i];
      if (operand.index < values || readings[operand.index - values] != 1) continue;
      if (node.op == "reshard") {
        const SumEnd& behind = ends[node.results[0].index];
        ends[operand.index] = {SumEnd::Next::reshard,
                               behind.next == SumEnd::Next::reshard ? behind.reshard : ir::NodeId{n}};
      } else if (is_linear(graph, node, i)) {
        const ir::ValueId result = node.results[0];
        ends[operand.index] = through(graph.type(operand), graph.type(result), ends[result.index]);
      }
    }
  }
}

// By value from `values` on: how often nodes from `first` on read it.
std::vector<size_t> count_readings(const ir::Graph& graph, uint32_t first, uint32_t values) {
  std::vector<size_t> readings(graph.values().size() - values, 0);
  for (size_t n = first; n < graph.nodes().size(); ++n)
    for (const ir::ValueId operand : graph.nodes()[n].operands)
      if (operand.index >= values) ++readings[operand.index - values];
  return readings;
}

}  // namespace

std::vector<SumEnd> find_sum_ends(const ir::Graph& graph) {
  std::vector<size_t> readings = count_readings(graph, 0, 0);
  for (const ir::Output& output : graph.outputs()) ++readings[output.value.index];
  std::vector<SumEnd> ends(graph.values().size());
  sweep(graph, 0, 0, readings, ends);
  return ends;
}

void extend_sum_ends(const ir::Graph& graph, uint32_t first, const std::vector<ir::ValueId>& made,
                     const std::vector<ir::ValueId>& results, std::vector<SumEnd>& ends) {
  const auto values = static_cast<uint32_t>(ends.size());
  const std::vector<size_t> readings = count_readings(graph, first, values);
  ends.resize(graph.values().size());
  for (size_t r = 0; r < made.size(); ++r)
    if (made[r].index >= values && readings[made[r].index - values] == 0) ends[made[r].index] = ends[results[r].index];
  sweep(graph, first, values, readings, ends);
}

}  // namespace megacpp::partition
