// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/remove_dead.h"

#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {

ir::Graph remove_dead(const ir::Graph& graph) {
  std::vector<bool> live(graph.nodes().size(), false);
  for (const ir::Output& output : graph.outputs()) live[graph.value(output.value).producer.index] = true;
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    if (graph.nodes()[n].results.empty()) live[n] = true;
    if (!live[n]) continue;
    for (const ir::ValueId operand : graph.nodes()[n].operands) live[graph.value(operand).producer.index] = true;
  }
  Rewriter rewriter(graph);
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    if (live[n] || graph.nodes()[n].op == ir::kInputOp) rewriter.copy(graph.nodes()[n]);
  return rewriter.finish();
}

}  // namespace megacpp::schedule
