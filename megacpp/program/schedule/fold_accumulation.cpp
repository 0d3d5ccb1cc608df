// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/fold_accumulation.h"

#include <map>
#include <optional>
#include <string>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

class Folder {
 public:
  explicit Folder(const ir::Graph& graph)
      : graph_(graph), readers_(count_readers(graph)), rewriter_(graph), adds_after_(graph.nodes().size()) {
    for (const ir::Output& output : graph.outputs())
      if (!output.donated.empty()) replaces_[output.value.index] = output.donated;
  }

  ir::Graph run() {
    std::vector<bool> moved(graph_.nodes().size(), false);
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n) {
      const auto gradient = accumulated_operand(graph_.nodes()[n]);
      moved[n] = gradient.has_value();
      if (gradient) adds_after_[graph_.value(*gradient).producer.index].push_back(n);
    }
    for (const ir::NodeId input : graph_.inputs()) rewriter_.copy(graph_.node(input));
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n)
      if (!moved[n] && graph_.nodes()[n].op != ir::kInputOp) emit(n);
    return rewriter_.finish();
  }

 private:
  // The gradient in add(input, gradient), when the sum replaces that input.
  std::optional<ir::ValueId> accumulated_operand(const ir::Node& node) const {
    if (node.op != "add") return std::nullopt;
    const auto replaced = replaces_.find(node.results[0].index);
    if (replaced == replaces_.end()) return std::nullopt;
    for (size_t i = 0; i < 2; ++i) {
      const ir::Node& accumulator = graph_.producer(node.operands[1 - i]);
      const bool is_replaced = accumulator.op == ir::kInputOp && accumulator.attrs.text("name") == replaced->second;
      if (is_replaced && graph_.producer(node.operands[i]).op != ir::kInputOp) return node.operands[i];
    }
    return std::nullopt;
  }

  // The node with its accumulations behind it, or the two as one.
  void emit(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    if (adds_after_[n].size() == 1 && can_fold(node, graph_.nodes()[adds_after_[n][0]])) {
      fold(node, graph_.nodes()[adds_after_[n][0]]);
      return;
    }
    rewriter_.copy(node);
    for (const uint32_t add : adds_after_[n]) rewriter_.copy(graph_.nodes()[add]);
  }

  bool can_fold(const ir::Node& node, const ir::Node& add) const {
    const int addend = ops::op_def(node.op).addend;
    const ir::ValueId product = node.results[0];  // what an addend is added to
    return addend >= 0 && node.operands.size() == static_cast<size_t>(addend) && readers_[product.index] == 1 &&
           node.results.size() == 1 && (add.operands[0] == product || add.operands[1] == product);
  }

  void fold(const ir::Node& node, const ir::Node& add) {
    ir::Node product = node;
    for (ir::ValueId& id : product.operands) id = rewriter_.map(id);
    const size_t accumulator = add.operands[0] == node.results[0] ? 1 : 0;
    product.operands.push_back(rewriter_.map(add.operands[accumulator]));
    product.role = add.role;
    rewriter_.replace(add.results, std::move(product), graph_.result_types(add));
  }

  const ir::Graph& graph_;
  std::vector<size_t> readers_;  // by value
  Rewriter rewriter_;
  std::map<uint32_t, std::string> replaces_;       // output value -> input it replaces
  std::vector<std::vector<uint32_t>> adds_after_;  // by node: the accumulations of its results
};

}  // namespace

ir::Graph fold_accumulation(const ir::Graph& graph) { return Folder(graph).run(); }

}  // namespace megacpp::schedule
