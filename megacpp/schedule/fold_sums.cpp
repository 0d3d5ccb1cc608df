// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/fold_sums.h"

#include <vector>

#include "megacpp/ops/op_def.h"
#include "megacpp/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// What becomes of one node.
struct Fate {
  uint32_t product = kNone;  // of a sum: the node that takes it in
  uint32_t sum = kNone;      // of a product: the sum that it takes in
  bool waits = false;        // of a product: its addend is made later, so it moves to where the sum stands
};

class SumFolder {
 public:
  SumFolder(const ir::Graph& graph, const Target& target)
      : graph_(graph),
        target_(target),
        readers_(count_readers(graph)),
        is_stored_(graph.values().size(), false),
        fates_(graph.nodes().size()),
        rewriter_(graph) {
    for (const ir::Node& node : graph.nodes())
      if (ops::op_def(node.op).fusion == ops::Fusion::none)
        for (const ir::ValueId operand : node.operands) is_stored_[operand.index] = true;
    for (const ir::Output& output : graph.outputs()) is_stored_[output.value.index] = true;
  }

  ir::Graph run() {
    for (uint32_t n = 0; n < fates_.size(); ++n)
      if (graph_.nodes()[n].op == "add") decide(n);
    for (uint32_t n = 0; n < fates_.size(); ++n) {
      const Fate& fate = fates_[n];
      if (fate.product != kNone) {
        if (fates_[fate.product].waits) emit_folded(fate.product);
      } else if (fate.sum == kNone) {
        rewriter_.copy(graph_.nodes()[n]);
      } else if (!fate.waits) {
        emit_folded(n);
      }
    }
    return rewriter_.finish();
  }

 private:
  // Of two products the later takes in the other's result, which is there by then.
  void decide(uint32_t sum) {
    const ir::Node& add = graph_.nodes()[sum];
    uint32_t chosen = kNone;
    for (size_t i = 0; i < 2; ++i) {
      const uint32_t producer = graph_.value(add.operands[i]).producer.index;
      if ((chosen == kNone || producer > chosen) && may_take(producer, add.operands[i], add.operands[1 - i]))
        chosen = producer;
    }
    if (chosen == kNone) return;
    fates_[sum].product = chosen;
    fates_[chosen].sum = sum;
    fates_[chosen].waits = graph_.value(addend_of(chosen)).producer.index > chosen;
  }

  ir::ValueId addend_of(uint32_t product) const {
    const ir::Node& add = graph_.nodes()[fates_[product].sum];
    return add.operands[0] == graph_.nodes()[product].results[0] ? add.operands[1] : add.operands[0];
  }

  bool may_take(uint32_t product, ir::ValueId part, ir::ValueId addend) const {
    const ir::Node& node = graph_.nodes()[product];
    const int place = ops::op_def(node.op).addend;
    if (place < 0 || node.operands.size() != static_cast<size_t>(place) || part != node.results[0]) return false;
    if (part == addend || readers_[part.index] != 1 || !is_stored(addend)) return false;
    // Other results of a node that moves to the sum might be read before it.
    if (node.results.size() > 1 && graph_.value(addend).producer.index > product) return false;
    ops::Types operands = graph_.operand_types(node);
    operands.push_back(graph_.type(addend));
    const ops::Types results = graph_.result_types(node);
    return static_cast<bool>(target_.runs(node.op, {operands, results, node.attrs}));
  }

  // Whether the value lies in memory anyway: made by a kernel of its own, or read by one.
  bool is_stored(ir::ValueId value) const {
    const uint32_t producer = graph_.value(value).producer.index;
    const ir::Node& node = graph_.nodes()[producer];
    const ops::OpDef& op = ops::op_def(node.op);
    if (op.is_view) return is_stored(node.operands[graph_.value(value).result]);
    return op.fusion == ops::Fusion::none || fates_[producer].product != kNone || is_stored_[value.index];
  }

  void emit_folded(uint32_t n) {
    const ir::Node& node = graph_.nodes()[n];
    const ir::Node& add = graph_.nodes()[fates_[n].sum];
    ir::Node product = node;
    product.operands.push_back(addend_of(n));
    for (ir::ValueId& operand : product.operands) operand = rewriter_.map(operand);
    product.role = add.role;
    const ir::NodeId id = rewriter_.graph().append(std::move(product), graph_.result_types(node));
    const ir::Node& made = rewriter_.graph().node(id);
    for (size_t r = 1; r < node.results.size(); ++r) rewriter_.set(node.results[r], made.results[r]);
    rewriter_.set(add.results[0], made.results[0]);
  }

  const ir::Graph& graph_;
  const Target& target_;
  std::vector<size_t> readers_;  // by value
  std::vector<bool> is_stored_;  // by value: a kernel or an output reads it
  std::vector<Fate> fates_;      // by node
  Rewriter rewriter_;
};

}  // namespace

ir::Graph fold_sums(const ir::Graph& graph, const Target& target) { return SumFolder(graph, target).run(); }

}  // namespace megacpp::schedule
