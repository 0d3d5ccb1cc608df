// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/find_activations.h"

#include <algorithm>
#include <utility>

#include "megacpp/program/ops/collective_start.h"

namespace megacpp::schedule {
namespace {

using ir::ValueId;

/// What a node is made of; constants count for nothing.
enum class MadeOf : uint8_t { nothing, weights, others };

std::vector<MadeOf> sources_of_nodes(const ir::Graph& graph) {
  std::vector<MadeOf> made_of(graph.nodes().size(), MadeOf::nothing);
  for (size_t n = 0; n < made_of.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    const bool is_weight = node.role == ir::Role::weight || node.role == ir::Role::weight_copy;
    if (node.op == ir::kInputOp) made_of[n] = is_weight ? MadeOf::weights : MadeOf::others;
    for (const ValueId operand : node.operands)
      made_of[n] = std::max(made_of[n], made_of[graph.value(operand).producer.index]);
  }
  return made_of;
}

/// Whether values may leave the device at all.
class Candidates {
 public:
  Candidates(const ir::Graph& graph, const Touches& touches, int64_t least_bytes)
      : graph_(graph),
        touches_(touches),
        least_bytes_(least_bytes),
        made_of_(sources_of_nodes(graph)),
        outputs_(graph.values().size(), 0) {
    for (const ir::Output& output : graph.outputs()) ++outputs_[touches_.root(output.value).index];
  }

  // What a collective is still bringing is nobody's to copy: what it hands on when it is done is.
  bool has(ValueId value) const {
    const ir::NodeId maker = graph_.value(value).producer;
    const ir::Node& node = graph_.node(maker);
    return node.op != ir::kInputOp && node.op != ops::kStartOp && touches_.root(value) == value &&
           !ir::scope_letter(node.scope).empty() && graph_.type(value).bytes() >= least_bytes_ &&
           made_of_[maker.index] != MadeOf::weights;
  }

  /// Outputs that it, or a shape of it, leaves as.
  size_t outputs_of(ValueId root) const { return outputs_[root.index]; }

 private:
  const ir::Graph& graph_;
  const Touches& touches_;
  const int64_t least_bytes_;
  const std::vector<MadeOf> made_of_;  // by node
  std::vector<size_t> outputs_;        // by value
};

Activation with_longest_gap(ValueId value, const std::vector<Touch>& touched) {
  Activation found{.value = value, .made = touched[0].node, .left = touched[0].until, .wanted = touched[1].node};
  uint32_t left = 0;
  for (size_t i = 0; i + 1 < touched.size(); ++i) {
    left = std::max(left, touched[i].until);
    const uint32_t next = touched[i + 1].node;
    if (next > left && next - left > *found.wanted - found.left) found.left = left, found.wanted = next;
  }
  return found;
}

}  // namespace

Touches::Touches(const ir::Graph& graph) : by_root_(graph.values().size()), is_kept_(graph.values().size(), false) {
  for (uint32_t v = 0; v < graph.values().size(); ++v) roots_.push_back(root_of_producer(graph, ValueId{v}));
  for (uint32_t n = 0; n < graph.nodes().size(); ++n) until_.push_back(n);
  for (uint32_t n = 0; n < graph.nodes().size(); ++n)
    if (const ir::Node& node = graph.nodes()[n]; node.op == ops::kDoneOp)
      until_[graph.value(node.operands[0]).producer.index] = n;
  for (uint32_t n = 0; n < graph.nodes().size(); ++n) add(graph, n);
}

uint32_t Touches::end_of(ValueId root) const { return std::ranges::max(of(root), {}, &Touch::until).until; }

// Operands stand before their readers, so that their roots are known.
ValueId Touches::root_of_producer(const ir::Graph& graph, ValueId value) const {
  const ir::Node& node = graph.producer(value);
  return is_reshape(node) ? roots_[node.operands[0].index] : value;
}

void Touches::add(const ir::Graph& graph, uint32_t n) {
  const ir::Node& node = graph.nodes()[n];
  for (const ValueId result : node.results)
    if (node.role == ir::Role::activation) is_kept_[root(result).index] = true;
  if (is_reshape(node)) return;
  for (const std::vector<ValueId>* values : {&node.results, &node.operands})
    for (const ValueId value : *values) {
      std::vector<Touch>& touched = by_root_[root(value).index];
      if (touched.empty() || touched.back().node != n) touched.push_back({n, until_[n]});
    }
}

std::vector<Activation> find_between_passes(const ir::Graph& graph, const Touches& touches, int64_t least_bytes) {
  const Candidates candidates(graph, touches, least_bytes);
  std::vector<Activation> found;
  for (uint32_t v = 0; v < graph.values().size(); ++v)
    if (const ValueId value{v}; candidates.has(value) && candidates.outputs_of(value) == 0 && touches.is_kept(value))
      if (const std::vector<Touch>& touched = touches.of(value); touched.size() > 1)
        found.push_back(with_longest_gap(value, touched));
  return found;
}

std::set<std::string> find_outputs(const ir::Graph& forward, const Touches& touches, std::string_view prefix,
                                   int64_t least_bytes) {
  const Candidates candidates(forward, touches, least_bytes);
  std::set<std::string> names;
  for (const ir::Output& output : forward.outputs())
    if (output.name.starts_with(prefix) && output.donated.empty() && candidates.has(output.value) &&
        candidates.outputs_of(output.value) == 1)
      names.insert(output.name);
  return names;
}

std::vector<Activation> named_outputs(const ir::Graph& forward, const Touches& touches,
                                      const std::set<std::string>& names) {
  std::vector<Activation> found;
  for (const ir::Output& output : forward.outputs())
    if (names.contains(output.name))
      found.push_back({.value = output.value,
                       .made = touches.of(output.value).front().node,
                       .left = touches.end_of(output.value),
                       .name = output.name});
  return found;
}

std::vector<Activation> named_inputs(const ir::Graph& backward, const Touches& touches,
                                     const std::set<std::string>& names) {
  std::vector<Activation> found;
  for (const ir::NodeId id : backward.inputs()) {
    const ir::Node& node = backward.node(id);
    Activation each{.value = node.results[0], .name = node.attrs.text("name")};
    if (!names.contains(each.name)) continue;
    if (const std::vector<Touch>& touched = touches.of(each.value); touched.size() > 1) each.wanted = touched[1].node;
    found.push_back(std::move(each));
  }
  return found;
}

}  // namespace megacpp::schedule
