// SPDX-License-Identifier: Apache-2.0
// A program: nodes in SSA order, owning everything by index. Each stage of the compiler takes a Graph and leaves a
// Graph (or a result about one). Inputs are nodes of op "input" with attributes name and role; state that a program
// reads and replaces is an input plus an output that donates it, so both share one buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/attrs.h"
#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::ir {

struct NodeId {
  uint32_t index = UINT32_MAX;
  auto operator<=>(const NodeId&) const = default;
};

struct ValueId {
  uint32_t index = UINT32_MAX;
  auto operator<=>(const ValueId&) const = default;
};

/// What a tensor's bytes are for; memory is reported by it. A weight_copy is a weight in the type that products read,
/// held for one step beside the f32 weight (Megatron: model parameters beside main parameters).
enum class Role : uint8_t { weight, weight_copy, gradient, optimizer, batch, activation, temporary, collective };
std::string_view role_name(Role role);
std::optional<Role> parse_role(std::string_view name);

struct Value {
  NodeId producer;
  uint32_t result = 0;  // which result of the producer
  TensorType type;
};

struct Node {
  std::string op;  // a name of ops/op_list.inc
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  Attrs attrs;
  std::string scope;  // "block07.M.ssd": block index, family, part
  Role role = Role::temporary;
};

struct Output {
  std::string name;
  ValueId value;
  std::string donated = {};  // name of the input whose buffer this output takes over; empty: none
};

class Graph {
 public:
  explicit Graph(std::string name = "") : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Output>& outputs() const { return outputs_; }

  const Node& node(NodeId id) const { return nodes_.at(id.index); }
  Node& node(NodeId id) { return nodes_.at(id.index); }
  const Value& value(ValueId id) const { return values_.at(id.index); }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const Node& producer(ValueId id) const { return node(value(id).producer); }

  /// Appends a node whose result types are known. `node.results` is filled here; operands must exist already.
  NodeId append(Node node, std::vector<TensorType> result_types);
  /// Space for so many nodes and values: growing moves all that are there, which large graphs spend much time on.
  void reserve(size_t nodes, size_t values);

  void add_output(Output output);

  /// Inputs in order of appearance.
  std::vector<NodeId> inputs() const;
  /// The input of that name, if any.
  std::optional<ValueId> find_input(std::string_view name) const;
  std::optional<ValueId> find_output(std::string_view name) const;

  std::vector<TensorType> operand_types(const Node& node) const;
  std::vector<TensorType> result_types(const Node& node) const;

  /// For each value, the nodes that read it, in order; a node that reads it twice stands once.
  std::vector<std::vector<NodeId>> users() const;

 private:
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<Output> outputs_;
};

inline constexpr std::string_view kInputOp = "input";

/// Parts of a scope: "block07.M.ssd" is block "block07", letter "M"; "embed" is block "embed", letter "".
std::string_view scope_block(std::string_view scope);
std::string_view scope_letter(std::string_view scope);

}  // namespace megacpp::ir
