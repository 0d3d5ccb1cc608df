// SPDX-License-Identifier: Apache-2.0
// Turns a change of sharding into the chip's nodes. Partial sums first: reduce-scatter where the wanted sharding splits
// a dimension over the summed axis, all-reduce for the rest. Then slices (free), all-to-all where an axis moves from
// one dimension to another, all-gather. Last, where partial sums are wanted of a value that chips have alike, all but
// one of them let go of it (free). Padding of sizes that do not divide is added and cut off here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::partition {

/// One step of the way from a sharding to another.
struct ReshardStep {
  enum class Kind : uint8_t { reduce_scatter, all_reduce, slice, all_to_all, all_gather, to_partial };
  Kind kind;
  ir::Axes axes;
  size_t dim = 0;       // split by reduce_scatter, slice, all_to_all; joined by all_gather
  size_t from_dim = 0;  // joined by all_to_all
  ir::Sharding after;
};

/// Deterministic and short; empty when both are equal. Axes that stand in another order in the same dimension cost a
/// gather and a slice.
std::vector<ReshardStep> plan_reshard(const ir::Sharding& from, const ir::Sharding& to, const ir::Shape& whole,
                                      const ir::Mesh& mesh);

/// How an explicit reshard leaves a value: dimensions as requested, partial sums added up or, where it says so, as they
/// are.
ir::Sharding reshard_target(const ir::Node& reshard, const ir::Sharding& from, const ir::Mesh& mesh);

/// Whether no step talks to other chips.
bool is_free(const std::vector<ReshardStep>& steps);

/// What a chip sends on the way: a tensor of this type, sharded as `from`.
int64_t sent_bytes(const std::vector<ReshardStep>& steps, const ir::Sharding& from, const ir::TensorType& whole,
                   const ir::Mesh& mesh);

/// A value that takes these steps.
struct Reshard {
  ir::ValueId local;         // the chip's part
  const ir::Sharding& from;  // how it is a part of
  const ir::Shape& whole;
  const std::vector<ReshardStep>& steps;
  std::string cause;  // kept on every collective
};

/// Appends the steps.
ir::ValueId lower_reshard(ops::Builder& builder, const Reshard& reshard, const ir::Mesh& mesh);

}  // namespace megacpp::partition
