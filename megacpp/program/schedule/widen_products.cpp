// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/widen_products.h"

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

// Whether the node widens a product that nothing else reads.
bool is_widening(const ir::Graph& graph, const ir::Node& node, const std::vector<size_t>& readers) {
  if (node.op != "convert" || graph.type(node.results[0]).dtype != ir::DType::f32) return false;
  const ir::Node& product = graph.producer(node.operands[0]);
  return ir::is_narrow(graph.type(node.operands[0]).dtype) && readers[node.operands[0].index] == 1 &&
         ops::op_def(product.op).chooses_result_dtype;
}

}  // namespace

ir::Graph widen_products(const ir::Graph& graph) {
  const std::vector<size_t> readers = count_readers(graph);
  std::vector<bool> widened(graph.nodes().size(), false);
  for (const ir::Node& node : graph.nodes())
    if (is_widening(graph, node, readers)) widened[graph.value(node.operands[0]).producer.index] = true;
  Rewriter rewriter(graph);
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    if (is_widening(graph, node, readers)) {
      rewriter.set(node.results[0], rewriter.map(node.operands[0]));
      continue;
    }
    if (!widened[n]) {
      rewriter.copy(node);
      continue;
    }
    ir::Node wide = node;
    wide.attrs.set("dtype", std::string(ir::dtype_name(ir::DType::f32)));
    for (ir::ValueId& operand : wide.operands) operand = rewriter.map(operand);
    rewriter.replace(node.results, std::move(wide), {{ir::DType::f32, graph.type(node.results[0]).shape}});
  }
  return rewriter.finish();
}

}  // namespace megacpp::schedule
