// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/fold_sums.h"

#include <set>
#include <vector>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/rewrite.h"
#include "megacpp/program/schedule/value_lives.h"

namespace megacpp::schedule {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// What becomes of one node.
struct Fate {
  uint32_t product = kNone;  // of a sum: the node that takes it in
  uint32_t sum = kNone;      // of a product: the sum that it takes in
  uint32_t view = kNone;     // of a product: the reshape between it and the sum
  bool waits = false;        // of a product: its addend is made later, so it moves to where the sum stands
  bool is_passed = false;    // of a reshape: it stands between a product and the sum that it takes in
};

class SumFolder {
 public:
  SumFolder(const ir::Graph& graph, const Target& target)
      : graph_(graph),
        target_(target),
        readers_(count_readers(graph)),
        lives_(graph),
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
        if (!fate.is_passed) rewriter_.copy(graph_.nodes()[n]);
      } else if (!fate.waits) {
        emit_folded(n);
      }
    }
    return rewriter_.finish();
  }

 private:
  // A product that might take in a sum, and its result as the sum reads it: perhaps through a reshape.
  struct Candidate {
    uint32_t product = kNone, view = kNone;
    ir::ValueId part = {};  // the product's result
  };

  Candidate candidate_of(ir::ValueId read) const {
    const uint32_t producer = graph_.value(read).producer.index;
    const ir::Node& node = graph_.nodes()[producer];
    if (node.op != "reshape" || readers_[read.index] != 1) return {producer, kNone, read};
    return {graph_.value(node.operands[0]).producer.index, producer, node.operands[0]};
  }

  // Of two products the later takes in the other's result, which is there by then.
  void decide(uint32_t sum) {
    const ir::Node& add = graph_.nodes()[sum];
    Candidate chosen;
    for (size_t i = 0; i < 2; ++i) {
      const Candidate candidate = candidate_of(add.operands[i]);
      const ir::ValueId addend = add.operands[1 - i];
      if ((chosen.product == kNone || candidate.product > chosen.product) &&
          may_take(candidate, add.operands[i], addend) &&
          (!is_later(addend, candidate.product) || may_move(candidate.product, sum)))
        chosen = candidate;
    }
    if (chosen.product != kNone) take_in(chosen, sum);
  }

  bool is_later(ir::ValueId addend, uint32_t product) const { return graph_.value(addend).producer.index > product; }

  // Whether what the product reads may be held until there, in place of its result.
  bool may_move(uint32_t product, uint32_t to) const {
    const ir::Node& node = graph_.nodes()[product];
    int64_t held = 0;
    for (const ir::ValueId operand : std::set(node.operands.begin(), node.operands.end())) {
      if (lives_.last_read(operand) >= static_cast<int64_t>(to)) continue;
      if (lives_.is_replaced(operand)) return false;
      if (!lives_.is_input(operand)) held += graph_.type(operand).bytes();
    }
    return held <= graph_.type(node.results[0]).bytes();
  }

  // The sum's operands are read where the product stands then: later decisions start from these lives.
  void take_in(const Candidate& candidate, uint32_t sum) {
    const uint32_t product = candidate.product;
    fates_[sum].product = product;
    if (candidate.view != kNone) fates_[candidate.view].is_passed = true;
    Fate& fate = fates_[product];
    fate.sum = sum;
    fate.view = candidate.view;
    const ir::ValueId addend = addend_of(product);
    fate.waits = is_later(addend, product);
    if (!fate.waits) {
      lives_.remove_reader(addend, sum);
      lives_.add_reader(addend, product);
      return;
    }
    for (const ir::ValueId operand : graph_.nodes()[product].operands) {
      lives_.remove_reader(operand, product);
      lives_.add_reader(operand, sum);
    }
  }

  ir::ValueId addend_of(uint32_t product) const {
    const Fate& fate = fates_[product];
    const ir::Node& add = graph_.nodes()[fate.sum];
    const ir::ValueId part = graph_.nodes()[fate.view == kNone ? product : fate.view].results[0];
    return add.operands[0] == part ? add.operands[1] : add.operands[0];
  }

  bool may_take(const Candidate& candidate, ir::ValueId read, ir::ValueId addend) const {
    const ir::Node& node = graph_.nodes()[candidate.product];
    const int place = ops::op_def(node.op).addend;
    if (place < 0 || node.operands.size() != static_cast<size_t>(place) || candidate.part != node.results[0])
      return false;
    if (read == addend || readers_[candidate.part.index] != 1 || !is_stored(addend)) return false;
    // Another result of the node is no addend of it, and those of a node that moves might be read before the sum.
    if (node.results.size() > 1 && graph_.value(addend).producer.index >= candidate.product) return false;
    ops::Types operands = graph_.operand_types(node);
    operands.push_back({graph_.type(addend).dtype, graph_.type(candidate.part).shape});
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
    for (ir::ValueId& operand : product.operands) operand = rewriter_.map(operand);
    product.operands.push_back(reshaped(rewriter_.map(addend_of(n)), add, graph_.type(node.results[0]).shape));
    product.role = add.role;
    const std::vector<ir::ValueId> made = rewriter_.append(std::move(product), graph_.result_types(node));
    for (size_t r = 1; r < node.results.size(); ++r) rewriter_.set(node.results[r], made[r]);
    rewriter_.set(add.results[0], reshaped(made[0], add, graph_.type(add.results[0]).shape));
  }

  // As it is where it has the shape; `like` says whose work it is.
  ir::ValueId reshaped(ir::ValueId value, const ir::Node& like, const ir::Shape& shape) {
    const ir::TensorType& type = rewriter_.graph().type(value);
    if (type.shape == shape) return value;
    ir::Node view = like;
    view.op = "reshape";
    view.operands = {value};
    view.attrs = {{"shape", shape}};
    const ir::TensorType viewed{type.dtype, shape};
    return rewriter_.append(std::move(view), {viewed})[0];
  }

  const ir::Graph& graph_;
  const Target& target_;
  std::vector<size_t> readers_;  // by value
  ValueLives lives_;             // as decided so far
  std::vector<bool> is_stored_;  // by value: a kernel or an output reads it
  std::vector<Fate> fates_;      // by node
  Rewriter rewriter_;
};

}  // namespace

ir::Graph fold_sums(const ir::Graph& graph, const Target& target) { return SumFolder(graph, target).run(); }

}  // namespace megacpp::schedule
