// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/evaluator.h"

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

std::vector<Tensor> evaluate_op(std::string_view op, const std::vector<Tensor>& operands, const ir::Attrs& attrs,
                                Rounding rounding) {
  Types types;
  for (const Tensor& operand : operands) types.push_back(operand.type);
  const OpDef& def = op_def(op);
  MEGACPP_CHECK(!def.is_collective) << op << " means nothing on one chip: evaluate_spmd runs it on a mesh";
  std::vector<Tensor> results;
  for (const ir::TensorType& type : def.infer(types, attrs)) results.push_back(Tensor::zeros(type));
  def.reference(operands, results, attrs);
  if (rounding == Rounding::none) return results;
  for (Tensor& result : results)
    for (double& element : result.data) element = ir::rounded(result.type.dtype, element);
  return results;
}

std::map<std::string, Tensor> evaluate(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs,
                                       Rounding rounding) {
  std::vector<Tensor> values(graph.values().size());
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::kInputOp) {
      const std::string& name = node.attrs.text("name");
      const auto at = inputs.find(name);
      MEGACPP_CHECK(at != inputs.end()) << "no tensor given for input '" << name << "'";
      values[node.results[0].index] = at->second;
      continue;
    }
    std::vector<Tensor> operands;
    for (const ir::ValueId operand : node.operands) operands.push_back(values[operand.index]);
    std::vector<Tensor> results = evaluate_op(node.op, operands, node.attrs, rounding);
    for (size_t i = 0; i < results.size(); ++i) values[node.results[i].index] = std::move(results[i]);
  }
  std::map<std::string, Tensor> outputs;
  for (const ir::Output& output : graph.outputs()) outputs[output.name] = values[output.value.index];
  return outputs;
}

}  // namespace megacpp::ops
