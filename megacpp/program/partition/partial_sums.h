// SPDX-License-Identifier: Apache-2.0
// How far partial sums pass through a program before they are added up: through ops that are linear in them, as long
// as that sends no more than adding them up at once.
#pragma once

#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/partition/factor_axes.h"
#include "megacpp/program/partition/local_values.h"
#include "megacpp/program/partition/sum_ends.h"

namespace megacpp::partition {

/// A node of the global program, and what its op says of it.
struct VisitedNode {
  const ir::Node& node;
  const ops::OpDef& op;
  const ops::NodeView& view;
  const ops::Factors& factors;
};

/// How the operands of a node must be sharded once its split is decided.
struct WantedOperands {
  std::vector<ir::Sharding> operands;
  ir::Axes partial;  // sums that pass through to every result
};

class PartialSums {
 public:
  PartialSums(const ir::Graph& global, const ir::Mesh& mesh, const LocalValues& values)
      : global_(global), mesh_(mesh), values_(values), ends_(find_sum_ends(global)) {}

  /// Split as the factors are; partial only where the op is linear, and where waiting does not make the sum larger.
  WantedOperands wanted_operands(const VisitedNode& visited, const FactorAxes& axes) const;

  const SumEnd& end(ir::ValueId value) const { return ends_[value.index]; }

  /// After nodes were appended to the global program.
  void extend(const Decomposition& decomposition) { extend_sum_ends(ends_, global_, decomposition); }

 private:
  /// A node that adds its operands: the axes over which all of them are partial, and over which any is.
  struct Addition {
    const ir::Node& node;
    ops::Linearity linearity;
    ir::Axes shared, all;
  };

  ir::Axes partial_of(ir::ValueId operand, const ir::Axes& used) const;
  void find_axes(Addition& addition, const ops::NodeView& view, const ir::Axes& used) const;
  bool must_wait(const Addition& addition, const std::vector<ir::Sharding>& operands, const ir::Sharding& result) const;
  double bytes_after_sum(ir::ValueId value, const ir::Sharding& from) const;
  bool adapts(ir::ValueId value) const;

  const ir::Graph& global_;
  const ir::Mesh& mesh_;
  const LocalValues& values_;
  std::vector<SumEnd> ends_;  // by global value
};

}  // namespace megacpp::partition
