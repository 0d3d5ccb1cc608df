// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/join_losses.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "megacpp/base/error.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

class LossJoiner {
 public:
  LossJoiner(const ir::Graph& graph, const Target& target) : graph_(graph), target_(target), rewriter_(graph) {}

  ir::Graph run() {
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      depends_on_loss_.push_back(node.op == "cross_entropy" ||
                                 std::ranges::any_of(node.operands, [&](ir::ValueId operand) {
                                   return depends_on_loss_[graph_.value(operand).producer.index];
                                 }));
      if (node.op == "cross_entropy_grad") consider(node, n);
    }
    for (uint32_t n = 0; n < graph_.nodes().size(); ++n) {
      if (is_joined_loss(n)) continue;
      if (!emit(n)) waiting_.push_back(n);
      if (gradients_.contains(n)) std::erase_if(waiting_, [this](uint32_t waits) { return emit(waits); });
    }
    MEGACPP_CHECK(waiting_.empty()) << "a loss was joined with a gradient that waits for it";
    return rewriter_.finish();
  }

 private:
  bool is_joined_loss(uint32_t node) const {
    return std::ranges::any_of(gradients_, [node](const auto& pair) { return pair.second == node; });
  }

  // Operands of the gradient: logits, labels, lse, dnll, dlse.
  void consider(const ir::Node& gradient, uint32_t n) {
    const uint32_t loss = graph_.value(gradient.operands[2]).producer.index;
    const ir::Node& made = graph_.nodes()[loss];
    if (made.op != "cross_entropy" || gradient.operands[2] != made.results[1] || is_joined_loss(loss)) return;
    if (gradient.operands[0] != made.operands[0] || gradient.operands[1] != made.operands[1]) return;
    for (const ir::ValueId factor : {gradient.operands[3], gradient.operands[4]})
      if (depends_on_loss_[graph_.value(factor).producer.index]) return;
    const ops::Types operands = {graph_.type(gradient.operands[0]), graph_.type(gradient.operands[1]),
                                 graph_.type(gradient.operands[3]), graph_.type(gradient.operands[4])};
    const ops::Types results = joined_types(gradient, made);
    if (target_.runs("cross_entropy_with_grad", {operands, results, gradient.attrs})) gradients_[n] = loss;
  }

  ops::Types joined_types(const ir::Node& gradient, const ir::Node& loss) const {
    return {graph_.type(gradient.results[0]), graph_.type(loss.results[0]), graph_.type(loss.results[1])};
  }

  // False where an operand is not there yet: a loss is made where its gradient stood.
  bool emit(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    if (const auto joined = gradients_.find(n); joined != gradients_.end()) {
      emit_joined(node, graph_.nodes()[joined->second]);
      return true;
    }
    const auto is_there = [this](ir::ValueId operand) { return rewriter_.has(operand); };
    if (!std::ranges::all_of(node.operands, is_there)) return false;
    rewriter_.copy(node);
    return true;
  }

  void emit_joined(const ir::Node& gradient, const ir::Node& loss) {
    ir::Node joined = gradient;
    joined.op = "cross_entropy_with_grad";
    joined.operands.erase(joined.operands.begin() + 2);  // lse is a result now
    for (ir::ValueId& operand : joined.operands) operand = rewriter_.map(operand);
    const ir::NodeId id = rewriter_.graph().append(std::move(joined), joined_types(gradient, loss));
    const ir::Node& made = rewriter_.graph().node(id);
    rewriter_.set(gradient.results[0], made.results[0]);
    rewriter_.set(loss.results[0], made.results[1]);
    rewriter_.set(loss.results[1], made.results[2]);
  }

  const ir::Graph& graph_;
  const Target& target_;
  std::vector<bool> depends_on_loss_;       // by node: on any
  std::map<uint32_t, uint32_t> gradients_;  // to the loss that each takes in, by node
  std::vector<uint32_t> waiting_;           // nodes that read a loss before its gradient stood, in their order
  Rewriter rewriter_;
};

}  // namespace

ir::Graph join_losses(const ir::Graph& graph, const Target& target) { return LossJoiner(graph, target).run(); }

}  // namespace megacpp::schedule
