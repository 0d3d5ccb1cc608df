// SPDX-License-Identifier: Apache-2.0
#include "megacpp/partition/sum_ends.h"

#include "megacpp/ops/op_def.h"

namespace megacpp::partition {
namespace {

bool is_sum(const ir::Graph& graph, const ir::Node& node, size_t operand) {
  const ops::OpDef& op = ops::op_def(node.op);
  if (!op.linear || node.results.size() != 1) return false;
  const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
  const ops::Linearity linearity = op.linear({operands, results, node.attrs});
  return linearity.kind == ops::Linearity::Kind::together && linearity.covers(operand) &&
         operands[operand] == results[0];
}

}  // namespace

std::vector<SumEnd> find_sum_ends(const ir::Graph& graph) {
  std::vector<size_t> readings(graph.values().size(), 0);
  for (const ir::Node& node : graph.nodes())
    for (const ir::ValueId operand : node.operands) ++readings[operand.index];
  for (const ir::Output& output : graph.outputs()) ++readings[output.value.index];
  std::vector<SumEnd> ends(graph.values().size());
  for (uint32_t n = static_cast<uint32_t>(graph.nodes().size()); n-- > 0;) {
    const ir::Node& node = graph.nodes()[n];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (readings[node.operands[i].index] != 1) continue;
      SumEnd& end = ends[node.operands[i].index];
      if (node.op == "reshard") {
        const SumEnd& behind = ends[node.results[0].index];
        end = {SumEnd::Next::reshard, behind.next == SumEnd::Next::reshard ? behind.reshard : ir::NodeId{n}};
      } else if (is_sum(graph, node, i)) {
        end = {SumEnd::Next::sum, ends[node.results[0].index].reshard};
      }
    }
  }
  return ends;
}

}  // namespace megacpp::partition
