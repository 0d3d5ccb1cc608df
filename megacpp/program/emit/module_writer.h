// SPDX-License-Identifier: Apache-2.0
// Collects what a module is made of - functions, arguments, results and the body between them - and writes its text.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/program/emit/function.h"
#include "megacpp/program/emit/module.h"
#include "megacpp/program/ops/hlo_writer.h"

namespace megacpp::emit {

class ModuleWriter {
  using HloType = ops::HloType;
  using HloValue = ops::HloValue;
  using HloWriter = ops::HloWriter;

 public:
  ModuleWriter(std::string name, const ir::Mesh& mesh, Placement placement, const FunctionOptions& options)
      : name_(std::move(name)),
        mesh_(mesh),
        placement_(placement),
        options_(options),
        body_(mesh, next_channel_, options.compiler) {}

  HloWriter& body() { return body_; }
  void add_function(const FunctionRequest& request);

  /// The sharding of a tensor of a program's type, seen by the module.
  Port port(const std::string& name, const ir::TensorType& type, const partition::Placements& placements) const;
  /// The same for tensors of this type that are stacked along a new first dimension.
  Port stack_port(const std::vector<std::string>& names, int64_t size, const ir::TensorType& type,
                  const partition::Placements& placements) const;

  /// Of what a slot holds, each of this type.
  Port port(const Slot& slot, const ir::TensorType& type, const partition::Placements& placements) const;

  /// Adds an argument and returns it as a program reads it.
  HloValue argument(const Port& port, const ir::TensorType& type);
  /// `donor`: the argument whose buffer it takes over.
  void result(const Port& port, const HloValue& value, std::optional<size_t> donor);

  Module finish();

 private:
  HloType seen_type(const Port& port) const;
  std::string mesh_text() const;
  std::string sharding_of(const Port& port) const;
  std::string arguments_text(bool is_manual) const;
  std::string results_text() const;
  // The body over local shapes, all axes in our hands.
  std::string manual_text() const;
  std::string names() const;
  std::string types(bool whole) const;

  const std::string name_;
  const ir::Mesh& mesh_;
  const Placement placement_;
  const FunctionOptions& options_;
  int64_t next_channel_ = 1;
  HloWriter body_;
  std::string functions_;
  Module module_;
  std::vector<HloValue> results_;
  std::map<size_t, size_t> donors_;  // argument -> result
};

/// The name of an input.
const std::string& name_of(const ir::Graph& graph, ir::NodeId input);
/// Of all inputs, and of all outputs, in order.
std::vector<std::string> input_names(const ir::Graph& graph);
std::vector<std::string> output_names(const ir::Graph& graph);

}  // namespace megacpp::emit
