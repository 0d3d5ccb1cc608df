// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/convert_once.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/fuse.h"
#include "megacpp/program/schedule/narrow_gathers.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

using ir::NodeId;
using ir::ValueId;

// Kernels read what was stored, and so does what runs over another shape; a cluster of the convert's own shape may have
// the number as a register has it.
bool reads_from_memory(const ir::Graph& graph, const ir::Node& reader) {
  if (ops::op_def(reader.op).fusion == ops::Fusion::broadcast)
    return graph.type(reader.results[0]).shape != graph.type(reader.operands[0]).shape;
  return !is_fusible(graph, reader);
}

class CopyReader {
 public:
  CopyReader(const ir::Graph& graph, const std::set<std::string>& weights)
      : graph_(graph), weights_(weights), users_(graph.users()), is_output_(graph.values().size(), false) {
    for (const ir::Output& output : graph.outputs()) is_output_[output.value.index] = true;
  }

  bool finds_any() const {
    return std::ranges::any_of(graph_.nodes(), [this](const ir::Node& node) { return is_converted(node); });
  }

  ConvertOnce run() {
    Rewriter rewriter(graph_);
    for (const ir::Node& node : graph_.nodes()) {
      if (is_replaced(node))
        rewriter.set(node.results[0], copy_of_.at(node.operands[0]));
      else if (is_converted(node))
        add_copy(rewriter, node);
      else
        rewriter.copy(node);
    }
    return {rewriter.finish(), std::move(copies_)};
  }

 private:
  bool is_weight(const ir::Node& node) const {
    return node.op == ir::kInputOp && weights_.contains(node.attrs.text("name"));
  }

  // The dtype of a weight's copy: that of the first convert.
  std::optional<ir::DType> narrowed_to(ValueId weight) const {
    for (const NodeId user : users_[weight.index])
      if (narrows(graph_, graph_.node(user))) return graph_.type(graph_.node(user).results[0]).dtype;
    return std::nullopt;
  }

  // A convert whose result all readers take from the copy.
  bool is_replaced(const ir::Node& node) const {
    if (!narrows(graph_, node) || !is_weight(graph_.producer(node.operands[0]))) return false;
    const ValueId result = node.results[0];
    if (graph_.type(result).dtype != narrowed_to(node.operands[0])) return false;
    return !is_output_[result.index] && !users_[result.index].empty() && !is_gathered(result) &&
           std::ranges::all_of(users_[result.index],
                               [this](NodeId user) { return reads_from_memory(graph_, graph_.node(user)); });
  }

  // What a collective makes of a converted shard, or of a reshape of it, stays instead of it: a copy would be held
  // beside that.
  bool is_gathered(ValueId shard) const {
    return std::ranges::any_of(users_[shard.index], [this](NodeId id) {
      const ir::Node& user = graph_.node(id);
      const ops::OpDef& op = ops::op_def(user.op);
      return op.is_collective || (op.is_view && is_gathered(user.results[0]));
    });
  }

  // A weight with such a convert.
  bool is_converted(const ir::Node& node) const {
    return is_weight(node) && std::ranges::any_of(users_[node.results[0].index],
                                                  [this](NodeId user) { return is_replaced(graph_.node(user)); });
  }

  void add_copy(Rewriter& rewriter, const ir::Node& weight) {
    const ValueId value = weight.results[0];
    const auto& users = users_[value.index];
    const bool is_read = is_output_[value.index] ||
                         !std::ranges::all_of(users, [this](NodeId user) { return is_replaced(graph_.node(user)); });
    if (is_read) rewriter.copy(weight);
    const WeightCopy& copy = copies_.emplace_back(
        WeightCopy{weight.attrs.text("name"), weight.scope, graph_.type(value).shape, *narrowed_to(value)});
    ir::Node input = weight;
    input.attrs.set("name", copy.name());
    input.attrs.set("dtype", std::string(ir::dtype_name(copy.dtype)));
    input.role = ir::Role::weight_copy;
    copy_of_[value] = rewriter.append(std::move(input), {{copy.dtype, copy.shape}})[0];
  }

  const ir::Graph& graph_;
  const std::set<std::string>& weights_;
  const std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;         // by value
  std::map<ValueId, ValueId> copy_of_;  // by weight; the copy in the new graph
  std::vector<WeightCopy> copies_;
};

}  // namespace

std::map<std::string, int64_t> count_conversions(const ir::Graph& graph) {
  std::map<std::string, int64_t> counts;
  for (const ir::Node& node : graph.nodes())
    if (narrows(graph, node) && graph.producer(node.operands[0]).op == ir::kInputOp)
      ++counts[graph.producer(node.operands[0]).attrs.text("name")];
  return counts;
}

ConvertOnce read_copies(const ir::Graph& graph, const std::set<std::string>& weights) {
  return CopyReader(graph, weights).run();
}

bool has_copies_to_read(const ir::Graph& graph, const std::set<std::string>& weights) {
  return !weights.empty() && CopyReader(graph, weights).finds_any();
}

ir::Graph make_copies(const std::vector<WeightCopy>& copies) {
  ir::Graph graph("convert_weights");
  ops::Builder builder(graph);
  for (const WeightCopy& copy : copies) {
    builder.set_scope(copy.scope);
    const ValueId weight = builder.input(copy.weight, {ir::DType::f32, copy.shape}, ir::Role::weight);
    builder.input(copy.name(), {copy.dtype, copy.shape}, ir::Role::weight_copy);
    graph.add_output({.name = copy.name(), .value = builder.convert(weight, copy.dtype), .donated = copy.name()});
  }
  return graph;
}

}  // namespace megacpp::schedule
