// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/collective_traffic.h"

#include <map>
#include <string>

#include "megacpp/ops/op_def.h"

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

Traffic traffic_of(const ir::Node& node, Mask from, Mask to) {
  if (!ops::op_def(node.op).is_collective) return Traffic::none;
  const bool reduces = node.op == "all_reduce" || node.op == "reduce_scatter";
  if (node.op == "all_gather" && (from == kWeight || to == kWeight)) return Traffic::weight;
  if (reduces && (from == kGradient || to == kGradient)) return Traffic::gradient;
  return Traffic::other;
}

}  // namespace

TrafficMap map_traffic(const ir::Graph& graph) {
  const std::vector<Mask> from = sources(graph), to = destinations(graph);
  TrafficMap map;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    map.traffic.push_back(traffic_of(graph.nodes()[n], from[n], to[n]));
    map.only_replaces_state.push_back((to[n] & kLeaves) == 0);
    map.is_of_weights.push_back(from[n] == kWeight);
  }
  return map;
}

}  // namespace megacpp::schedule
