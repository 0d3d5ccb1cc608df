// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/mix_products.h"

#include <utility>
#include <vector>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

bool is_widening_convert(const ir::Graph& graph, const ir::Node& node) {
  return node.op == "convert" && graph.type(node.results[0]).dtype == ir::DType::f32 &&
         ir::is_narrow(graph.type(node.operands[0]).dtype);
}

// True where the left side of the product is a narrow tensor that was only widened for it.
bool may_mix(const ir::Graph& graph, const ir::Node& node, const Target& target) {
  if (node.op != "dot" || node.operands.size() != 2) return false;
  const ir::Node& convert = graph.producer(node.operands[0]);
  if (!is_widening_convert(graph, convert) || graph.type(node.results[0]).dtype != ir::DType::f32) return false;
  const ops::Types operands = {graph.type(convert.operands[0]), graph.type(node.operands[1])};
  const ops::Types results = graph.result_types(node);
  return static_cast<bool>(target.runs("mixed_dot", {operands, results, node.attrs}));
}

}  // namespace

ir::Graph mix_products(const ir::Graph& graph, const Target& target) {
  std::vector<size_t> readers = count_readers(graph);
  std::vector<bool> is_mixed(graph.nodes().size(), false);
  for (size_t n = 0; n < is_mixed.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    is_mixed[n] = may_mix(graph, node, target);
    if (is_mixed[n]) --readers[node.operands[0].index];
  }
  Rewriter rewriter(graph);
  for (size_t n = 0; n < is_mixed.size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    if (is_mixed[n]) {
      ir::Node mixed = node;
      mixed.op = "mixed_dot";
      mixed.operands = {rewriter.map(graph.producer(node.operands[0]).operands[0]), rewriter.map(node.operands[1])};
      rewriter.replace(node.results, std::move(mixed), graph.result_types(node));
    } else if (!is_widening_convert(graph, node) || readers[node.results[0].index] > 0) {
      rewriter.copy(node);
    }
  }
  return rewriter.finish();
}

}  // namespace megacpp::schedule
