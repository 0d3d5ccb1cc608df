// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/autodiff/differentiate.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::autodiff {
namespace {

using ir::NodeId;
using ir::ValueId;
using ops::Builder;

// A node is worth keeping under `selective` when it costs more arithmetic than this per result element.
// Elementwise work, norms and short convolutions stay below it; products and sequence mixers are above.
constexpr double kCheapFlopsPerElement = 12.0;

class Differentiator {
 public:
  Differentiator(ir::Graph& graph, const Options& options)
      : graph_(graph),
        options_(options),
        forward_nodes_(graph.nodes().size()),
        cotangents_(graph.values().size()),
        is_activation_(graph.nodes().size(), false) {}

  std::vector<ValueId> run(const std::vector<std::pair<ValueId, ValueId>>& seeds, const std::vector<ValueId>& targets) {
    mark_needed(targets);
    Builder builder(graph_);
    for (const auto& [value, cotangent] : seeds) accumulate(builder, value, cotangent);
    for (size_t n = forward_nodes_; n-- > 0;) backward(builder, NodeId{static_cast<uint32_t>(n)});
    for (size_t n = 0; n < forward_nodes_; ++n)
      if (is_activation_[n] && graph_.nodes()[n].role == ir::Role::temporary)
        graph_.node(NodeId{static_cast<uint32_t>(n)}).role = ir::Role::activation;
    std::vector<ValueId> gradients;
    for (const ValueId target : targets) {
      const auto& gradient = cotangents_[target.index];
      gradients.push_back(gradient ? *gradient : builder.constant_like(0.0, target));
    }
    return gradients;
  }

 private:
  // Only values on a path from a target to a seed carry cotangents.
  void mark_needed(const std::vector<ValueId>& targets) {
    needed_.assign(graph_.values().size(), false);
    for (const ValueId target : targets) needed_[target.index] = true;
    for (size_t n = 0; n < forward_nodes_; ++n) {
      const ir::Node& node = graph_.nodes()[n];
      const bool reads_needed = std::any_of(node.operands.begin(), node.operands.end(),
                                            [this](ValueId operand) { return needed_[operand.index]; });
      if (!reads_needed || !ops::op_def(node.op).grad) continue;
      for (const ValueId result : node.results) needed_[result.index] = ir::is_float(graph_.type(result).dtype);
    }
  }

  void accumulate(Builder& builder, ValueId value, ValueId cotangent) {
    auto& total = cotangents_[value.index];
    total = total ? builder.add(*total, cotangent) : cotangent;
  }

  void backward(Builder& builder, NodeId id) {
    const ir::Node node = graph_.node(id);  // a copy: the graph grows below
    if (!std::any_of(node.operands.begin(), node.operands.end(), [this](ValueId v) { return needed_[v.index]; }))
      return;
    ops::Cotangents cotangents;
    bool reached = false;
    for (const ValueId result : node.results) {
      cotangents.push_back(cotangents_[result.index]);
      reached = reached || cotangents.back().has_value();
    }
    if (!reached) return;
    const ops::OpDef& op = ops::op_def(node.op);
    if (!op.grad) return;
    for (size_t r = op.statistics_from; r < cotangents.size(); ++r)
      MEGACPP_CHECK(!cotangents[r].has_value()) << "a cotangent reaches statistic " << r << " of " << op.name;
    // The rule has no gradient for these: one that is wanted would silently be zero.
    for (const ops::ConstantOperand& constant : op.constant_operands)
      MEGACPP_CHECK(constant.operand >= node.operands.size() || !needed_[node.operands[constant.operand].index])
          << "a gradient is wanted through operand " << constant.operand << " of " << op.name << " in "
          << (node.scope.empty() ? "no scope" : node.scope) << ", which its record calls constant: " << constant.reason;
    enter_block(node.scope);
    const ops::Cotangents gradients = splice_gradient(op, node, cotangents);
    builder.set_scope(node.scope);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i]) accumulate(builder, node.operands[i], *gradients[i]);
  }

  // Builds the gradient in a graph of its own, where operands, results and cotangents are inputs, then copies over only
  // the nodes that lead to needed cotangents. So unused branches are never built, and a forward value is recomputed (or
  // marked as kept) exactly when the gradient really reads it.
  ops::Cotangents splice_gradient(const ops::OpDef& op, const ir::Node& node, const ops::Cotangents& cotangents) {
    ir::Graph scratch;
    Builder builder(scratch);
    builder.set_scope(node.scope);
    std::vector<ValueId> stands_for;  // by scratch value, for inputs
    const auto placeholder = [&](ValueId value) {
      const ValueId input = builder.input("", graph_.type(value), ir::Role::temporary);
      stands_for.resize(input.index + 1);
      stands_for[input.index] = value;
      return input;
    };
    std::vector<ValueId> operands, results;
    for (const ValueId operand : node.operands) operands.push_back(placeholder(operand));
    for (const ValueId result : node.results) results.push_back(placeholder(result));
    ops::Cotangents inputs;
    for (const auto& cotangent : cotangents)
      inputs.push_back(cotangent ? std::optional(placeholder(*cotangent)) : std::nullopt);
    ops::Cotangents gradients = op.grad({builder, operands, results, node.attrs, inputs});
    MEGACPP_CHECK(gradients.size() == node.operands.size()) << "gradient of " << op.name << " misses operands";
    for (size_t i = 0; i < gradients.size(); ++i)
      if (!needed_[node.operands[i].index]) gradients[i] = std::nullopt;
    return splice(scratch, stands_for, gradients);
  }

  ops::Cotangents splice(const ir::Graph& scratch, const std::vector<ValueId>& stands_for,
                         const ops::Cotangents& roots) {
    std::vector<bool> live(scratch.nodes().size(), false);
    for (const auto& root : roots)
      if (root) live[scratch.value(*root).producer.index] = true;
    for (size_t n = scratch.nodes().size(); n-- > 0;)
      if (live[n])
        for (const ValueId operand : scratch.nodes()[n].operands) live[scratch.value(operand).producer.index] = true;
    std::vector<ValueId> mapped(scratch.values().size());
    for (size_t n = 0; n < scratch.nodes().size(); ++n) {
      const ir::Node& node = scratch.nodes()[n];
      if (!live[n]) continue;
      if (node.op == ir::kInputOp) {
        mapped[node.results[0].index] = recomputed(stands_for[node.results[0].index]);
      } else {
        ir::Node copy = node;
        for (ValueId& operand : copy.operands) operand = mapped[operand.index];
        const NodeId id = graph_.append(std::move(copy), scratch.result_types(node));
        for (size_t r = 0; r < node.results.size(); ++r) mapped[node.results[r].index] = graph_.node(id).results[r];
      }
    }
    ops::Cotangents result;
    for (const auto& root : roots) result.push_back(root ? std::optional(mapped[root->index]) : std::nullopt);
    return result;
  }

  // Clones are shared inside one block's backward pass and dropped with it.
  void enter_block(const std::string& scope) {
    const std::string_view block = ir::scope_block(scope);
    if (block == block_) return;
    block_ = block;
    clones_.clear();
  }

  Recompute policy(const ir::Node& node) const {
    const auto at = options_.recompute.find(std::string(ir::scope_letter(node.scope)));
    return at == options_.recompute.end() ? Recompute::none : at->second;
  }

  // A weight sharded otherwise than it is stored, and is meant to until the backward pass: recomputing is for
  // activations.
  bool is_weight(const ir::Node& node) const {
    return node.op == "reshard" && graph_.producer(node.operands[0]).role == ir::Role::weight;
  }

  bool is_kept(const ir::Node& node) const {
    if (node.op == ir::kInputOp) return true;
    if (node.attrs.flag("recomputed")) return false;
    // What is gathered again is converted again: kept, the converted copy would undo what gathering again saves.
    if (node.op == "convert" && graph_.producer(node.operands[0]).attrs.flag("recomputed")) return false;
    if (is_weight(node)) return true;
    switch (policy(node)) {
      case Recompute::none:
        return true;
      case Recompute::full:
        return ir::scope_block(node.scope) != block_;
      case Recompute::selective: {
        if (ir::scope_block(node.scope) != block_) return true;
        const ops::Types operands = graph_.operand_types(node), results = graph_.result_types(node);
        const double flops = ops::op_def(node.op).cost({operands, results, node.attrs}).flops;
        return flops > kCheapFlopsPerElement * static_cast<double>(results[0].elements());
      }
    }
    return true;
  }

  // The value itself when it is kept (or made by the backward pass), else its clone, appended now if there is none yet.
  ValueId recomputed(ValueId value) {
    const ir::Value source = graph_.value(value);
    if (source.producer.index >= forward_nodes_) return value;
    if (is_kept(graph_.node(source.producer))) {
      is_activation_[source.producer.index] = true;
      return value;
    }
    const auto known = clones_.find(value.index);
    if (known != clones_.end()) return known->second;
    ir::Node copy = graph_.node(source.producer);
    for (ValueId& operand : copy.operands) operand = recomputed(operand);
    const std::vector<ValueId> originals = copy.results;
    const NodeId id = graph_.append(std::move(copy), graph_.result_types(graph_.node(source.producer)));
    for (size_t r = 0; r < originals.size(); ++r) clones_[originals[r].index] = graph_.node(id).results[r];
    return clones_.at(value.index);
  }

  ir::Graph& graph_;
  const Options& options_;
  size_t forward_nodes_;
  std::vector<std::optional<ValueId>> cotangents_;  // by forward value
  std::vector<bool> needed_;                        // by forward value
  std::vector<bool> is_activation_;                 // by forward node
  std::string block_;                               // whose backward pass is being built
  std::unordered_map<uint32_t, ValueId> clones_;    // forward value of that block -> its recomputed copy
};

}  // namespace

std::vector<ValueId> differentiate(ir::Graph& graph, const std::vector<std::pair<ValueId, ValueId>>& seeds,
                                   const std::vector<ValueId>& targets, const Options& options) {
  return Differentiator(graph, options).run(seeds, targets);
}

}  // namespace megacpp::autodiff
