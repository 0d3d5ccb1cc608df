// SPDX-License-Identifier: Apache-2.0
// What an op's own partition rule works with, where its factors do not suffice (OpDef::partition): it sees how the
// operands are sharded, asks for them as it needs them, appends the chip's nodes and says how the results are sharded.
#pragma once

#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

class PartitionContext {
 public:
  virtual ~PartitionContext() = default;

  /// The node in the global program: global types.
  virtual const NodeView& view() const = 0;
  virtual const ir::Mesh& mesh() const = 0;
  /// How the operand is sharded now; `local` would reshard it for you.
  virtual const ir::Sharding& sharding(size_t operand) const = 0;
  /// How result 0 should be sharded, where a consumer has asked; null: the rule chooses.
  virtual const ir::Sharding* requested() const = 0;
  /// The chip's part of the operand under `sharding`. Where that gathers more than the layout allows without being
  /// asked, the program is refused.
  virtual ValueId local(size_t operand, const ir::Sharding& sharding) = 0;
  /// The same where the rule has found that a chip would hold and send more if it did not gather: never refused.
  virtual ValueId gathered(size_t operand, const ir::Sharding& sharding) { return local(operand, sharding); }
  /// Appends to the chip's program, in the node's scope.
  virtual Builder& builder() = 0;
};

/// One per result.
struct PartitionedResult {
  ValueId value;
  ir::Sharding sharding;
};

/// Index of this chip along `axes`: i32[].
ValueId shard_index(Builder& b, const ir::Axes& axes, const ir::Mesh& mesh);

/// The part of a dimension of `size` elements, split over `axes`, that is real on this chip: both i32[].
struct RuntimeRange {
  ValueId first;  // index of the chip's first element in the whole
  ValueId count;  // elements before the padding
};
RuntimeRange runtime_range(Builder& b, int64_t size, const ir::Axes& axes, const ir::Mesh& mesh);

/// A dimension of a tensor that chips along `axes` split.
struct SplitDim {
  int64_t dim;
  int64_t size;  // of the whole tensor
  const ir::Axes& axes;
  const ir::Mesh& mesh;
};
/// x with `value` in the padding of a dimension that is not divided evenly.
ValueId fill_padding(Builder& b, ValueId x, const SplitDim& split, double value);

/// `sharding` without `taken` in any dimension, cut at the first such axis, and without partial sums.
ir::Sharding without_axes(const ir::Sharding& sharding, const ir::Axes& taken);

}  // namespace megacpp::ops
