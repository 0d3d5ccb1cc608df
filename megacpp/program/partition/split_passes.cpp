// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/split_passes.h"

#include "megacpp/program/ops/op_def.h"

namespace megacpp::partition {
namespace {

// By node: whether an output that the stage before waits for depends on it.
std::vector<bool> leads_to_cotangents(const ir::Graph& graph) {
  std::vector<bool> leads(graph.nodes().size(), false);
  for (const ir::Output& output : graph.outputs())
    if (output.name.starts_with(kCotangentPrefix)) leads[graph.value(output.value).producer.index] = true;
  for (size_t n = graph.nodes().size(); n-- > 0;)
    if (leads[n])
      for (const ir::ValueId operand : graph.nodes()[n].operands) leads[graph.value(operand).producer.index] = true;
  return leads;
}

// Where a gather is to be repeated, autodiff has put a second one into the backward pass. One that both passes read
// is meant to last.
std::vector<bool> repeated_in_passes(const ir::Graph& graph, size_t forward_nodes) {
  std::vector<bool> repeated = depends_on_inputs_alone(graph);
  const std::vector<bool> is_of_weights = depends_on_weights_alone(graph);
  for (size_t n = 0; n < repeated.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    const ops::OpDef& op = ops::op_def(node.op);
    if (op.is_view || op.fusion == ops::Fusion::broadcast) repeated[n] = true;
    if (n < forward_nodes && is_of_weights[n] && op.transfer) repeated[n] = false;
  }
  return repeated;
}

}  // namespace

Divided split_passes(const ir::Graph& graph, size_t forward_nodes, Backward backward) {
  Division division{.parts = {"forward", "backward"},
                    .part_of = std::vector<size_t>(graph.nodes().size(), 0),
                    .is_repeated = repeated_in_passes(graph, forward_nodes),
                    .prefix = std::string(kKeptPrefix),
                    .hand_over = HandOver::direct};
  if (backward == Backward::in_two_parts) division.parts = {"forward", "backward_input", "backward_weight"};
  const std::vector<bool> is_waited_for = leads_to_cotangents(graph);
  for (size_t n = forward_nodes; n < graph.nodes().size(); ++n)
    division.part_of[n] = backward == Backward::in_two_parts && !is_waited_for[n] ? 2 : 1;
  return divide_graph(graph, division);
}

}  // namespace megacpp::partition
