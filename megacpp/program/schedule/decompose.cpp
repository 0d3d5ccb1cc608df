// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/schedule/decompose.h"

#include <algorithm>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {
namespace {

// A transpose that leaves the dimensions larger than 1 in their order.
bool moves_nothing(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "transpose") return false;
  const ir::TensorType& operand = graph.type(node.operands[0]);
  std::vector<int64_t> larger;
  for (const int64_t dim : node.attrs.list("permutation"))
    if (operand.dim(dim) != 1) larger.push_back(dim);
  return std::is_sorted(larger.begin(), larger.end());
}

ir::Node as_reshape(const ir::Graph& graph, const ir::Node& transpose) {
  ir::Node view = transpose;
  view.op = "reshape";
  view.attrs = {{"shape", graph.type(transpose.results[0]).shape}};
  return view;
}

// "": none, or none that is better than the decomposition.
std::string_view looped_form(const Target& target, const ops::OpDef& op, const ops::NodeView& view) {
  return target.compiles_loops && op.looped ? op.looped(view) : std::string_view();
}

}  // namespace

Decomposed decompose(const ir::Graph& graph, const Target& target) {
  Rewriter rewriter(graph);
  std::vector<Fallback> fallbacks;
  for (const ir::Node& node : graph.nodes()) {
    const ops::OpDef& op = ops::op_def(node.op);
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    const base::Decision runs =
        op.is_composite() ? target.runs(node.op, {operands, results, node.attrs}) : base::Decision::yes();
    if (runs) {
      rewriter.copy(moves_nothing(graph, node) ? as_reshape(graph, node) : node);
      continue;
    }
    const std::string_view looped = looped_form(target, op, {operands, results, node.attrs});
    const bool is_fallback = target.wants_whole ? target.wants_whole(node.op) : looped.empty();
    if (is_fallback) fallbacks.push_back({node.op, node.scope, runs.reason()});
    if (!looped.empty()) {
      ir::Node loop = node;
      loop.op = looped;
      rewriter.copy(loop);
      continue;
    }
    ops::Builder builder(rewriter.graph());
    builder.set_scope(node.scope);
    builder.set_role(node.role);
    std::vector<ir::ValueId> mapped;
    for (const ir::ValueId operand : node.operands) mapped.push_back(rewriter.map(operand));
    const std::vector<ir::ValueId> values = op.decompose(builder, mapped, node.attrs);
    for (size_t r = 0; r < values.size(); ++r) rewriter.set(node.results[r], values[r]);
  }
  return {rewriter.finish(), std::move(fallbacks)};
}

}  // namespace megacpp::schedule
