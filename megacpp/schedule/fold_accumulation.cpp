// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schedule/fold_accumulation.h"

#include <optional>

#include "megacpp/ops/op_def.h"
#include "megacpp/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

// How often each value is read, by nodes and as an output.
std::vector<size_t> count_readers(const ir::Graph& graph) {
  std::vector<size_t> readers;
  for (const std::vector<ir::NodeId>& users : graph.users()) readers.push_back(users.size());
  for (const ir::Output& output : graph.outputs()) ++readers[output.value.index];
  return readers;
}

// The operand of `add` that an op made which could add the other one itself: read by nothing else, the other an input.
std::optional<size_t> foldable_operand(const ir::Graph& graph, const ir::Node& add,
                                       const std::vector<size_t>& readers) {
  if (add.op != "add") return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const ir::Node& product = graph.producer(add.operands[i]);
    const bool alone = readers[add.operands[i].index] == 1;
    const bool accumulates = graph.producer(add.operands[1 - i]).op == ir::kInputOp;
    const int addend = ops::op_def(product.op).addend;
    const bool has_room = addend >= 0 && product.operands.size() == static_cast<size_t>(addend);
    if (has_room && alone && accumulates) return i;
  }
  return std::nullopt;
}

}  // namespace

ir::Graph fold_accumulation(const ir::Graph& graph) {
  const std::vector<size_t> readers = count_readers(graph);
  std::vector<bool> folded(graph.nodes().size(), false);
  for (const ir::Node& node : graph.nodes())
    if (const auto operand = foldable_operand(graph, node, readers))
      folded[graph.value(node.operands[*operand]).producer.index] = true;
  Rewriter rewriter(graph);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    if (folded[n]) continue;
    const auto operand = foldable_operand(graph, node, readers);
    if (!operand) {
      rewriter.copy(node);
      continue;
    }
    ir::Node product = graph.producer(node.operands[*operand]);
    for (ir::ValueId& id : product.operands) id = rewriter.map(id);
    product.operands.push_back(rewriter.map(node.operands[1 - *operand]));
    product.role = node.role;
    const ir::NodeId id = rewriter.graph().append(std::move(product), graph.result_types(node));
    rewriter.set(node.results[0], rewriter.graph().node(id).results[0]);
  }
  return rewriter.finish();
}

}  // namespace megacpp::schedule
