// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/narrow_gathers.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "megacpp/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

// By node: reshards of weights, and of their reshards.
std::vector<bool> weight_reshards(const ir::Graph& graph) {
  std::vector<bool> found(graph.nodes().size(), false);
  for (size_t n = 0; n < found.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    if (node.op != "reshard") continue;
    const ir::NodeId source = graph.value(node.operands[0]).producer;
    const bool is_weight = graph.node(source).op == ir::kInputOp && graph.node(source).role == ir::Role::weight;
    found[n] = is_weight || found[source.index];
  }
  return found;
}

// By node: reshards of weights that end in narrowing converts and in nothing else.
std::vector<bool> narrowed_reshards(const ir::Graph& graph, const std::vector<std::vector<ir::NodeId>>& users) {
  std::vector<bool> narrowed = weight_reshards(graph);
  std::vector<bool> is_output(graph.values().size(), false);
  for (const ir::Output& output : graph.outputs()) is_output[output.value.index] = true;
  for (size_t n = narrowed.size(); n-- > 0;) {
    if (!narrowed[n]) continue;
    const ir::ValueId result = graph.nodes()[n].results[0];
    narrowed[n] = !is_output[result.index] && !users[result.index].empty() &&
                  std::ranges::all_of(users[result.index], [&](ir::NodeId user) {
                    return narrowed[user.index] || narrows(graph, graph.node(user));
                  });
  }
  return narrowed;
}

// A reshard takes the place of its converts: it is kept for the backward pass where one of them was.
ir::Role role_of(const ir::Graph& graph, const ir::Node& reshard, std::span<const ir::NodeId> readers) {
  const bool is_kept = std::ranges::any_of(readers, [&](ir::NodeId reader) {
    return graph.node(reader).op == "convert" && graph.node(reader).role == ir::Role::activation;
  });
  return is_kept ? ir::Role::activation : reshard.role;
}

ir::ValueId append(Rewriter& rewriter, ir::Node node, ir::ValueId operand, const ir::TensorType& type) {
  node.operands = {operand};
  return rewriter.append(std::move(node), {type})[0];
}

}  // namespace

bool narrows(const ir::Graph& graph, const ir::Node& node) {
  return node.op == "convert" && graph.type(node.operands[0]).dtype == ir::DType::f32 &&
         graph.type(node.results[0]).dtype == ir::DType::bf16;
}

NarrowGathers narrow_gathers(const ir::Graph& graph, size_t forward_nodes) {
  const std::vector<std::vector<ir::NodeId>> users = graph.users();
  const std::vector<bool> narrowed = narrowed_reshards(graph, users);
  Rewriter rewriter(graph);
  size_t begin_of_backward = SIZE_MAX;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    if (n == forward_nodes) begin_of_backward = rewriter.graph().nodes().size();
    const ir::Node& node = graph.nodes()[n];
    const bool is_of_narrowed = !node.operands.empty() && narrowed[graph.value(node.operands[0]).producer.index];
    if (is_of_narrowed && !narrowed[n]) {  // its convert
      rewriter.set(node.results[0], rewriter.map(node.operands[0]));
    } else if (narrowed[n]) {
      const ir::TensorType type{ir::DType::bf16, graph.type(node.results[0]).shape};
      ir::ValueId operand = rewriter.map(node.operands[0]);
      if (!is_of_narrowed)
        operand = append(
            rewriter,
            {.op = "convert", .attrs = {{"dtype", std::string(ir::dtype_name(type.dtype))}}, .scope = node.scope},
            operand, type);
      ir::Node reshard = node;
      reshard.role = role_of(graph, node, users[node.results[0].index]);
      rewriter.set(node.results[0], append(rewriter, std::move(reshard), operand, type));
    } else {
      rewriter.copy(node);
    }
  }
  begin_of_backward = std::min(begin_of_backward, rewriter.graph().nodes().size());
  return {rewriter.finish(), begin_of_backward};
}

}  // namespace megacpp::schedule
