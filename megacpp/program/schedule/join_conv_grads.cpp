// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/join_conv_grads.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

// Nodes that are one from now on, made where the first of them stood.
struct ConvGrads {
  uint32_t input, weight;
  std::optional<uint32_t> bias = {};

  uint32_t first() const { return std::min({input, weight, bias.value_or(input)}); }
};

class ConvGradJoiner {
 public:
  ConvGradJoiner(const ir::Graph& graph, const Target& target)
      : graph_(graph), target_(target), users_(graph.users()), joined_with_(graph.nodes().size()), rewriter_(graph) {}

  ir::Graph run() {
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n)
      if (graph_.nodes()[n].op == "causal_conv_weight")
        if (const std::optional<ConvGrads> grads = grads_with(n)) take(*grads);
    for (uint32_t n = 0; n < joined_with_.size(); ++n) {
      if (!joined_with_[n])
        rewriter_.copy(graph_.nodes()[n]);
      else if (joined_with_[n]->first() == n)
        emit(*joined_with_[n]);
    }
    return rewriter_.finish();
  }

 private:
  void take(const ConvGrads& grads) {
    joined_with_[grads.input] = joined_with_[grads.weight] = grads;
    if (grads.bias) joined_with_[*grads.bias] = grads;
  }

  // Convolutions whose sum is read on have one dy: each of its readers is joined once. Which of them with which does
  // not matter: dx is made of dy and the weight, dw of dy and the input.
  bool is_taken(ir::NodeId node) const { return joined_with_[node.index].has_value(); }

  // Operands of the weight's gradient: x, dy, perhaps positions.
  std::optional<ConvGrads> grads_with(uint32_t weight) const {
    const ir::Node& of_weight = graph_.nodes()[weight];
    for (const ir::NodeId user : users_[of_weight.operands[1].index]) {
      const ir::Node& of_input = graph_.node(user);
      if (is_taken(user) || !are_of_one_conv(of_input, of_weight)) continue;
      ConvGrads grads{.input = user.index, .weight = weight, .bias = bias_of(of_weight.operands[1])};
      if (may_join(grads)) return grads;
    }
    return std::nullopt;
  }

  // The input's gradient is the convolution of dy the other way round.
  bool are_of_one_conv(const ir::Node& of_input, const ir::Node& of_weight) const {
    if (of_input.op != "causal_conv" || of_input.operands[0] != of_weight.operands[1]) return false;
    if (of_input.attrs.flag("reverse") == of_weight.attrs.flag("reverse")) return false;
    return graph_.type(of_input.operands[1]).dim(1) == of_weight.attrs.integer("width") &&
           std::equal(of_input.operands.begin() + 2, of_input.operands.end(), of_weight.operands.begin() + 2,
                      of_weight.operands.end());
  }

  // What sums dy over all but its channels.
  std::optional<uint32_t> bias_of(ir::ValueId dy) const {
    const int64_t leading = graph_.type(dy).rank() - 1;
    for (const ir::NodeId user : users_[dy.index]) {
      const ir::Node& node = graph_.node(user);
      if (is_taken(user) || node.op != "reduce" || node.attrs.text("kind") != "sum") continue;
      const std::vector<int64_t>& dims = node.attrs.list("dims");
      const bool is_of_all =
          static_cast<int64_t>(dims.size()) == leading && std::ranges::find(dims, leading) == dims.end();
      if (is_of_all && graph_.type(node.results[0]).dtype == graph_.type(dy).dtype) return user.index;
    }
    return std::nullopt;
  }

  bool may_join(const ConvGrads& grads) const {
    const ir::Node joined = joined_node(grads);
    for (const ir::ValueId operand : joined.operands)
      if (graph_.value(operand).producer.index >= grads.first()) return false;
    ops::Types operands;
    for (const ir::ValueId operand : joined.operands) operands.push_back(graph_.type(operand));
    const ops::Types results = joined_types(grads);
    if (operands[0] != operands[1]) return false;
    return static_cast<bool>(target_.runs(joined.op, {operands, results, joined.attrs}));
  }

  ir::Node joined_node(const ConvGrads& grads) const {
    const ir::Node &of_input = graph_.nodes()[grads.input], &of_weight = graph_.nodes()[grads.weight];
    ir::Node joined = of_input;
    joined.op = "causal_conv_grad";
    joined.attrs = {{"reverse", of_weight.attrs.integer("reverse", 0)}};
    joined.operands = {of_weight.operands[0], of_weight.operands[1], of_input.operands[1]};
    joined.operands.insert(joined.operands.end(), of_weight.operands.begin() + 2, of_weight.operands.end());
    return joined;
  }

  ops::Types joined_types(const ConvGrads& grads) const {
    const ir::TensorType& dx = graph_.type(graph_.nodes()[grads.input].results[0]);
    return {dx, graph_.type(graph_.nodes()[grads.weight].results[0]), {dx.dtype, {dx.dim(-1)}}};
  }

  void emit(const ConvGrads& grads) {
    ir::Node joined = joined_node(grads);
    for (ir::ValueId& operand : joined.operands) operand = rewriter_.map(operand);
    std::vector<ir::ValueId> old = {graph_.nodes()[grads.input].results[0], graph_.nodes()[grads.weight].results[0]};
    if (grads.bias) old.push_back(graph_.nodes()[*grads.bias].results[0]);
    rewriter_.replace(old, std::move(joined), joined_types(grads));
  }

  const ir::Graph& graph_;
  const Target& target_;
  const std::vector<std::vector<ir::NodeId>> users_;   // by value
  std::vector<std::optional<ConvGrads>> joined_with_;  // by node
  Rewriter rewriter_;
};

}  // namespace

ir::Graph join_conv_grads(const ir::Graph& graph, const Target& target) { return ConvGradJoiner(graph, target).run(); }

}  // namespace megacpp::schedule
