// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/narrow_gathers.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "megacpp/program/schedule/rewrite.h"

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

// The narrow dtype of each reshard of weights that ends in converts to it and in nothing else, by node.
std::vector<std::optional<ir::DType>> narrowed_reshards(const ir::Graph& graph,
                                                        const std::vector<std::vector<ir::NodeId>>& users) {
  const std::vector<bool> reshards = weight_reshards(graph);
  std::vector<std::optional<ir::DType>> narrowed(reshards.size());
  std::vector<bool> is_output(graph.values().size(), false);
  for (const ir::Output& output : graph.outputs()) is_output[output.value.index] = true;
  for (size_t n = narrowed.size(); n-- > 0;) {
    const ir::ValueId result = graph.nodes()[n].results[0];
    if (!reshards[n] || is_output[result.index] || users[result.index].empty()) continue;
    const auto narrowed_by = [&](ir::NodeId user) -> std::optional<ir::DType> {
      if (narrows(graph, graph.node(user))) return graph.type(graph.node(user).results[0]).dtype;
      return narrowed[user.index];
    };
    const std::optional<ir::DType> first = narrowed_by(users[result.index].front());
    if (std::ranges::all_of(users[result.index], [&](ir::NodeId user) { return narrowed_by(user) == first; }))
      narrowed[n] = first;
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
         ir::is_narrow(graph.type(node.results[0]).dtype);
}

NarrowGathers narrow_gathers(const ir::Graph& graph, size_t forward_nodes) {
  const std::vector<std::vector<ir::NodeId>> users = graph.users();
  const std::vector<std::optional<ir::DType>> narrowed = narrowed_reshards(graph, users);
  Rewriter rewriter(graph);
  size_t begin_of_backward = SIZE_MAX;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    if (n == forward_nodes) begin_of_backward = rewriter.graph().nodes().size();
    const ir::Node& node = graph.nodes()[n];
    const bool is_of_narrowed =
        !node.operands.empty() && narrowed[graph.value(node.operands[0]).producer.index].has_value();
    if (is_of_narrowed && !narrowed[n]) {  // its convert
      rewriter.set(node.results[0], rewriter.map(node.operands[0]));
    } else if (narrowed[n]) {
      const ir::TensorType type{*narrowed[n], graph.type(node.results[0]).shape};
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
