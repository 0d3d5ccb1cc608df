// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/verify.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {
namespace {

class Verifier {
 public:
  Verifier(const ir::Graph& graph, Form form) : graph_(graph), form_(form) {
    outputs_.reserve(graph.outputs().size());
    donated_.reserve(graph.outputs().size());
  }

  void run() {
    for (uint32_t i = 0; i < graph_.nodes().size(); ++i) check_node({i});
    for (const ir::Output& output : graph_.outputs()) check_output(output);
  }

 private:
  std::string name(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    return "node " + std::to_string(id.index) + " (" + node.op + (node.scope.empty() ? "" : " @" + node.scope) + ") ";
  }

  void check_node(ir::NodeId id) {
    const OpDef* op = find_op(graph_.node(id).op);
    MEGACPP_CHECK(op != nullptr) << name(id) << "is no op of the table";
    check_links(id);
    check_types(id, *op);
    check_form(id, *op);
    if (op->name == ir::kInputOp) check_input(id);
  }

  void check_links(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    for (const ir::ValueId operand : node.operands)
      MEGACPP_CHECK(operand.index < graph_.values().size() && graph_.value(operand).producer < id)
          << name(id) << "reads %" << operand.index << " before it is defined";
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ir::ValueId result = node.results[r];
      MEGACPP_CHECK(result.index < graph_.values().size() && graph_.value(result).producer == id &&
                    graph_.value(result).result == r)
          << name(id) << "lists %" << result.index << ", which is not its result " << r;
    }
  }

  void check_types(ir::NodeId id, const OpDef& op) const {
    const ir::Node& node = graph_.node(id);
    const Types inferred = infer(id, op);
    MEGACPP_CHECK(node.results.size() == inferred.size())
        << name(id) << "has " << node.results.size() << " results; inference gives " << inferred.size();
    for (size_t r = 0; r < inferred.size(); ++r) {
      const ir::TensorType& stored = graph_.type(node.results[r]);
      MEGACPP_CHECK(stored == inferred[r]) << name(id) << "result " << r << " is " << to_string(stored)
                                           << "; inference gives " << to_string(inferred[r]);
    }
  }

  // Inference speaks to whoever wrote the node; here that was us, so its refusal becomes a check that names the node.
  Types infer(ir::NodeId id, const OpDef& op) const {
    const ir::Node& node = graph_.node(id);
    std::string refusal;
    try {
      return op.infer(graph_.operand_types(node), node.attrs);
    } catch (const std::exception& error) {
      refusal = error.what();
    }
    MEGACPP_CHECK(refusal.empty()) << name(id) << "is refused by inference: " << refusal;
    return {};
  }

  void check_form(ir::NodeId id, const OpDef& op) const {
    if (form_ == Form::built) {
      MEGACPP_CHECK(op.name != "fused") << name(id) << "may only stand after fusion";
    } else if (form_ == Form::fused) {
      MEGACPP_CHECK(op.fusion == Fusion::none) << name(id) << "is left outside fused nodes";
    }
  }

  void check_input(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    MEGACPP_CHECK(node.attrs.has("name")) << name(id) << "has no name";
    const std::string& input = node.attrs.text("name");
    MEGACPP_CHECK(inputs_.emplace(input, node.results[0]).second)
        << name(id) << "repeats the input name '" << input << "'";
  }

  void check_output(const ir::Output& output) {
    MEGACPP_CHECK(outputs_.insert(output.name).second) << "output '" << output.name << "' stands twice";
    if (output.donated.empty()) return;
    const ir::NodeId producer = graph_.value(output.value).producer;
    const auto input = inputs_.find(output.donated);
    MEGACPP_CHECK(input != inputs_.end())
        << name(producer) << "gives output '" << output.name << "', which takes over '" << output.donated
        << "', but no input has that name";
    MEGACPP_CHECK(graph_.type(input->second) == graph_.type(output.value))
        << name(producer) << "gives output '" << output.name << "' of type " << to_string(graph_.type(output.value))
        << ", which takes over '" << output.donated << "' of type " << to_string(graph_.type(input->second));
    MEGACPP_CHECK(donated_.insert(output.donated).second)
        << name(producer) << "gives output '" << output.name << "', which takes over '" << output.donated
        << "' a second time";
  }

  const ir::Graph& graph_;
  Form form_;
  std::unordered_map<std::string_view, ir::ValueId> inputs_;  // by name; only looked up
  std::unordered_set<std::string_view> outputs_;
  std::unordered_set<std::string_view> donated_;
};

}  // namespace

void verify(const ir::Graph& graph, Form form) { Verifier(graph, form).run(); }

}  // namespace megacpp::ops
