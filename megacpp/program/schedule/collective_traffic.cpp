// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/collective_traffic.h"

#include <map>
#include <set>

#include "megacpp/program/ops/op_def.h"

namespace megacpp::schedule {
namespace {

using Mask = uint32_t;  // a bit per ir::Role, and one for what leaves the program other than as state

constexpr Mask bit(ir::Role role) { return Mask{1} << static_cast<unsigned>(role); }
constexpr Mask kWeight = bit(ir::Role::weight);
constexpr Mask kGradient = bit(ir::Role::gradient);
constexpr Mask kLeaves = Mask{1} << 31;

// By node: the roles of the inputs it is made of.
std::vector<Mask> sources(const ir::Graph& graph) {
  std::vector<Mask> masks(graph.nodes().size(), 0);
  for (size_t n = 0; n < masks.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    if (node.op == ir::kInputOp) masks[n] = bit(node.role);
    for (const ir::ValueId operand : node.operands) masks[n] |= masks[graph.value(operand).producer.index];
  }
  return masks;
}

// By node: the roles of the state that it replaces in the end.
std::vector<Mask> destinations(const ir::Graph& graph) {
  std::map<std::string, ir::Role> roles;
  for (const ir::NodeId id : graph.inputs()) roles.emplace(graph.node(id).attrs.text("name"), graph.node(id).role);
  std::vector<Mask> masks(graph.nodes().size(), 0);
  for (const ir::Output& output : graph.outputs())
    masks[graph.value(output.value).producer.index] |= output.donated.empty() ? kLeaves : bit(roles.at(output.donated));
  for (size_t n = masks.size(); n-- > 0;) {
    const ir::Node& node = graph.nodes()[n];
    if (node.results.empty()) masks[n] = kLeaves;  // runs for its effect
    for (const ir::ValueId operand : node.operands) masks[graph.value(operand).producer.index] |= masks[n];
  }
  return masks;
}

Traffic traffic_of(const ir::Node& node, Mask from, Mask to, const std::vector<std::string>& gradient) {
  using Kind = ops::Transfer::Kind;
  const ops::OpDef& op = ops::op_def(node.op);
  if (!op.is_collective) return Traffic::none;
  if (!op.transfer) return Traffic::other;
  if (op.transfer->kind == Kind::gather && (from == kWeight || to == kWeight)) return Traffic::weight;
  if (op.transfer->kind == Kind::reduce && (from == kGradient || !gradient[node.results[0].index].empty()))
    return Traffic::gradient;
  return Traffic::other;
}

// By value: the gradient state that it leaves the program as; empty: none.
std::vector<std::string> gradient_outputs(const ir::Graph& graph) {
  std::set<std::string> gradients;
  for (const ir::NodeId id : graph.inputs())
    if (graph.node(id).role == ir::Role::gradient) gradients.insert(graph.node(id).attrs.text("name"));
  std::vector<std::string> left_as(graph.values().size());
  for (const ir::Output& output : graph.outputs())
    if (gradients.contains(output.donated)) left_as[output.value.index] = output.donated;
  return left_as;
}

}  // namespace

TrafficMap map_traffic(const ir::Graph& graph) {
  const std::vector<Mask> from = sources(graph), to = destinations(graph);
  const std::vector<std::string> gradient = becomes_gradient(graph);
  TrafficMap map;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    map.traffic.push_back(traffic_of(graph.nodes()[n], from[n], to[n], gradient));
    map.only_replaces_state.push_back((to[n] & kLeaves) == 0);
    map.is_of_weights.push_back(from[n] == kWeight);
  }
  return map;
}

bool only_moves(const ir::Node& node) { return ops::op_def(node.op).keeps_order || ops::transfer_of(node) != nullptr; }

std::vector<std::string> becomes_gradient(const ir::Graph& graph) {
  const std::vector<std::string> left_as = gradient_outputs(graph);
  std::vector<std::string> becomes = left_as;
  for (size_t n = graph.nodes().size(); n-- > 0;) {
    const ir::Node& node = graph.nodes()[n];
    const bool adds = node.op == "add" || node.op == "fused", moves = only_moves(node);
    if (!adds && !moves) continue;
    const bool in_pairs = moves && node.operands.size() == node.results.size();
    for (size_t o = 0; o < node.operands.size(); ++o)
      for (size_t r = 0; r < node.results.size(); ++r) {
        const ir::ValueId operand = node.operands[o], result = node.results[r];
        const bool is_added = adds && graph.type(operand).shape == graph.type(result).shape;
        const std::string& state = is_added ? left_as[result.index] : becomes[result.index];
        if (!state.empty() && (is_added || (moves && (!in_pairs || o == r)))) becomes[operand.index] = state;
      }
  }
  return becomes;
}

}  // namespace megacpp::schedule
