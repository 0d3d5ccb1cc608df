// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/sum_ends.h"

#include "megacpp/program/ops/op_def.h"

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

// The last nodes of a graph and the values they make.
struct Tail {
  uint32_t first_node = 0, first_value = 0;
};

// `readings` counts from the tail's first value. Last node first.
void sweep(const ir::Graph& graph, Tail tail, const std::vector<size_t>& readings, std::vector<SumEnd>& ends) {
  for (uint32_t n = static_cast<uint32_t>(graph.nodes().size()); n-- > tail.first_node;) {
    const ir::Node& node = graph.nodes()[n];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ir::ValueId operand = node.operands[i];
      if (operand.index < tail.first_value || readings[operand.index - tail.first_value] != 1) continue;
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

// By value of the tail: how often its nodes read it.
std::vector<size_t> count_readings(const ir::Graph& graph, Tail tail) {
  std::vector<size_t> readings(graph.values().size() - tail.first_value, 0);
  for (size_t n = tail.first_node; n < graph.nodes().size(); ++n)
    for (const ir::ValueId operand : graph.nodes()[n].operands)
      if (operand.index >= tail.first_value) ++readings[operand.index - tail.first_value];
  return readings;
}

}  // namespace

std::vector<SumEnd> find_sum_ends(const ir::Graph& graph) {
  std::vector<size_t> readings = count_readings(graph, {});
  for (const ir::Output& output : graph.outputs()) ++readings[output.value.index];
  std::vector<SumEnd> ends(graph.values().size());
  sweep(graph, {}, readings, ends);
  return ends;
}

void extend_sum_ends(std::vector<SumEnd>& ends, const ir::Graph& graph, const Decomposition& decomposition) {
  const auto& [first, results, made] = decomposition;
  const auto values = static_cast<uint32_t>(ends.size());
  const Tail tail{.first_node = first, .first_value = values};
  const std::vector<size_t> readings = count_readings(graph, tail);
  ends.resize(graph.values().size());
  for (size_t r = 0; r < made.size(); ++r)
    if (made[r].index >= values && readings[made[r].index - values] == 0) ends[made[r].index] = ends[results[r].index];
  sweep(graph, tail, readings, ends);
}

}  // namespace megacpp::partition
