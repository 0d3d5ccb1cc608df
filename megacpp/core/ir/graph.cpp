// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/graph.h"

#include <array>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::ir {
namespace {

constexpr std::array<std::string_view, 8> kRoleNames = {"weight", "weight_copy", "gradient",  "optimizer",
                                                        "batch",  "activation",  "temporary", "collective"};

}  // namespace

std::string_view role_name(Role role) { return kRoleNames.at(static_cast<size_t>(role)); }

std::optional<Role> parse_role(std::string_view name) {
  for (size_t i = 0; i < kRoleNames.size(); ++i)
    if (kRoleNames[i] == name) return static_cast<Role>(i);
  return std::nullopt;
}

NodeId Graph::append(Node node, std::vector<TensorType> result_types) {
  const NodeId id{static_cast<uint32_t>(nodes_.size())};
  for (const ValueId operand : node.operands)
    MEGACPP_CHECK(operand.index < values_.size()) << node.op << " reads a value that does not exist yet";
  node.results.clear();
  for (TensorType& type : result_types) {
    node.results.push_back(ValueId{static_cast<uint32_t>(values_.size())});
    values_.push_back(
        Value{.producer = id, .result = static_cast<uint32_t>(node.results.size() - 1), .type = std::move(type)});
  }
  nodes_.push_back(std::move(node));
  return id;
}

void Graph::reserve(size_t nodes, size_t values) {
  nodes_.reserve(nodes);
  values_.reserve(values);
}

void Graph::add_output(Output output) {
  MEGACPP_CHECK(output.value.index < values_.size()) << "output '" << output.name << "' names no value";
  outputs_.push_back(std::move(output));
}

std::vector<NodeId> Graph::inputs() const {
  std::vector<NodeId> ids;
  for (uint32_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].op == kInputOp) ids.push_back(NodeId{i});
  return ids;
}

std::optional<ValueId> Graph::find_input(std::string_view name) const {
  for (const Node& node : nodes_)
    if (node.op == kInputOp && node.attrs.text("name") == name) return node.results[0];
  return std::nullopt;
}

std::optional<ValueId> Graph::find_output(std::string_view name) const {
  for (const Output& output : outputs_)
    if (output.name == name) return output.value;
  return std::nullopt;
}

std::vector<TensorType> Graph::operand_types(const Node& node) const {
  std::vector<TensorType> types;
  types.reserve(node.operands.size());
  for (const ValueId id : node.operands) types.push_back(type(id));
  return types;
}

std::vector<TensorType> Graph::result_types(const Node& node) const {
  std::vector<TensorType> types;
  types.reserve(node.results.size());
  for (const ValueId id : node.results) types.push_back(type(id));
  return types;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> users(values_.size());
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    for (const ValueId operand : nodes_[i].operands) {
      std::vector<NodeId>& list = users[operand.index];
      if (list.empty() || list.back() != NodeId{i}) list.push_back(NodeId{i});
    }
  }
  return users;
}

std::string_view scope_block(std::string_view scope) { return scope.substr(0, scope.find('.')); }

std::string_view scope_letter(std::string_view scope) {
  const size_t dot = scope.find('.');
  if (dot == std::string_view::npos || !scope.starts_with("block")) return "";
  const std::string_view rest = scope.substr(dot + 1);
  return rest.substr(0, rest.find('.'));
}

}  // namespace megacpp::ir
