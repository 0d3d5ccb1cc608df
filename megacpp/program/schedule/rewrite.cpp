// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/rewrite.h"

#include <utility>

namespace megacpp::schedule {

std::vector<ir::ValueId> Rewriter::append(ir::Node node, std::vector<ir::TensorType> types) {
  const ir::NodeId id = to_.append(std::move(node), std::move(types));
  return to_.node(id).results;
}

void Rewriter::replace(const std::vector<ir::ValueId>& old, ir::Node node, std::vector<ir::TensorType> types) {
  const std::vector<ir::ValueId> made = append(std::move(node), std::move(types));
  for (size_t r = 0; r < old.size(); ++r) set(old[r], made[r]);
}

void Rewriter::copy(const ir::Node& node) {
  ir::Node copy = node;
  for (ir::ValueId& operand : copy.operands) operand = map(operand);
  const ir::NodeId id = to_.append(std::move(copy), from_.result_types(node));
  const std::vector<ir::ValueId>& made = to_.node(id).results;
  for (size_t r = 0; r < made.size(); ++r) set(node.results[r], made[r]);
}

ir::Graph Rewriter::finish() {
  for (ir::Output output : from_.outputs()) {
    output.value = map(output.value);
    to_.add_output(std::move(output));
  }
  return std::move(to_);
}

std::vector<size_t> count_readers(const ir::Graph& graph) {
  std::vector<size_t> readers(graph.values().size(), 0);
  std::vector<uint32_t> last(graph.values().size(), UINT32_MAX);  // node that was seen to read it
  for (uint32_t n = 0; n < graph.nodes().size(); ++n)
    for (const ir::ValueId operand : graph.nodes()[n].operands)
      if (std::exchange(last[operand.index], n) != n) ++readers[operand.index];
  for (const ir::Output& output : graph.outputs()) ++readers[output.value.index];
  return readers;
}

}  // namespace megacpp::schedule
