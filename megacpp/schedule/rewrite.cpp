// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/rewrite.h"

namespace megacpp::schedule {

void Rewriter::copy(const ir::Node& node) {
  ir::Node copy = node;
  for (ir::ValueId& operand : copy.operands) operand = map(operand);
  const ir::NodeId id = to_.append(std::move(copy), from_.result_types(node));
  for (size_t r = 0; r < node.results.size(); ++r) set(node.results[r], to_.node(id).results[r]);
}

ir::Graph Rewriter::finish() {
  for (ir::Output output : from_.outputs()) {
    output.value = map(output.value);
    to_.add_output(std::move(output));
  }
  return std::move(to_);
}

std::vector<size_t> count_readers(const ir::Graph& graph) {
  std::vector<size_t> readers;
  for (const std::vector<ir::NodeId>& users : graph.users()) readers.push_back(users.size());
  for (const ir::Output& output : graph.outputs()) ++readers[output.value.index];
  return readers;
}

}  // namespace megacpp::schedule
