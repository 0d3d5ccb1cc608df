// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/narrow_operands.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

class OperandNarrower {
 public:
  OperandNarrower(const ir::Graph& graph, const Target& target)
      : graph_(graph), target_(target), users_(graph.users()), readers_(count_readers(graph)), rewriter_(graph) {}

  ir::Graph run() {
    std::vector<bool> reads_narrow(graph_.nodes().size(), false);
    for (size_t n = 0; n < reads_narrow.size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      if (is_absorbed(node)) {
        rewriter_.set(node.results[0], rewriter_.map(node.operands[0]));
        for (const ir::NodeId user : users_[node.results[0].index]) reads_narrow[user.index] = true;
      } else if (reads_narrow[n]) {
        emit(node);
      } else {
        rewriter_.copy(node);
      }
    }
    return rewriter_.finish();
  }

 private:
  // Whether the node is a conversion that none of its readers needs.
  bool is_absorbed(const ir::Node& node) const {
    if (node.op != "convert" || graph_.type(node.results[0]).dtype != ir::DType::f32 ||
        !ir::is_narrow(graph_.type(node.operands[0]).dtype))
      return false;
    const std::vector<ir::NodeId>& users = users_[node.results[0].index];
    const bool is_output = users.size() != readers_[node.results[0].index];
    return !users.empty() && !is_output &&
           std::ranges::all_of(users, [&](ir::NodeId user) { return widens(graph_.node(user), node); });
  }

  // True where the target runs the node with the operand of `convert` in place of its result.
  bool widens(const ir::Node& node, const ir::Node& convert) const {
    const ir::ValueId wide = convert.results[0];
    const int position = ops::op_def(node.op).widens_operand;
    if (position < 0 || std::ranges::count(node.operands, wide) != 1) return false;
    const auto at = static_cast<size_t>(position);
    if (node.operands[at] != wide) return false;
    ops::Types operands = graph_.operand_types(node);
    operands[at].dtype = graph_.type(convert.operands[0]).dtype;
    const ops::Types results = graph_.result_types(node);
    const ir::Node asked = with_result_dtype(node);
    return static_cast<bool>(target_.runs(asked.op, {operands, results, asked.attrs}));
  }

  // A result that would follow the operand keeps its dtype.
  ir::Node with_result_dtype(const ir::Node& node) const {
    ir::Node asked = node;
    if (ops::op_def(node.op).chooses_result_dtype)
      asked.attrs.set("dtype", std::string(ir::dtype_name(graph_.type(node.results[0]).dtype)));
    return asked;
  }

  void emit(const ir::Node& node) {
    ir::Node narrow = with_result_dtype(node);
    for (ir::ValueId& operand : narrow.operands) operand = rewriter_.map(operand);
    rewriter_.replace(node.results, std::move(narrow), graph_.result_types(node));
  }

  const ir::Graph& graph_;
  const Target& target_;
  std::vector<std::vector<ir::NodeId>> users_;  // by value
  std::vector<size_t> readers_;                 // by value
  Rewriter rewriter_;
};

}  // namespace

ir::Graph narrow_operands(const ir::Graph& graph, const Target& target) { return OperandNarrower(graph, target).run(); }

}  // namespace megacpp::schedule
