// SPDX-License-Identifier: Apache-2.0
// Copies nodes of one graph into another while passes replace some of them: keeps the map from old values to new.
#pragma once

#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

class Rewriter {
 public:
  explicit Rewriter(const ir::Graph& from) : from_(from), to_(from.name()), mapped_(from.values().size()) {
    to_.reserve(from.nodes().size(), from.values().size());
  }

  ir::Graph& graph() { return to_; }
  bool has(ir::ValueId old) const { return mapped_[old.index].index != UINT32_MAX; }
  ir::ValueId map(ir::ValueId old) const { return mapped_[old.index]; }
  void set(ir::ValueId old, ir::ValueId replacement) { mapped_[old.index] = replacement; }

  /// Appends a node whose operands are values of the new graph; its results.
  std::vector<ir::ValueId> append(ir::Node node, std::vector<ir::TensorType> types);
  /// The same, for what reads the old values from now on.
  void replace(const std::vector<ir::ValueId>& old, ir::Node node, std::vector<ir::TensorType> types);
  /// Appends the node as it is, with operands mapped.
  void copy(const ir::Node& node);
  /// Copies the outputs; call last.
  ir::Graph finish();

 private:
  const ir::Graph& from_;
  ir::Graph to_;
  std::vector<ir::ValueId> mapped_;
};

/// How many nodes read each value, and outputs.
std::vector<size_t> count_readers(const ir::Graph& graph);

}  // namespace megacpp::schedule
