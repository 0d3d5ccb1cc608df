// SPDX-License-Identifier: Apache-2.0
// What one chip has of every value of the global program while it is partitioned: the shardings it was made in so far.
#pragma once

#include <cstdint>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/core/ir/mesh.h"

namespace megacpp::partition {

/// The chip's part of a value in one sharding.
struct Version {
  ir::Sharding sharding;
  ir::ValueId local;
};

struct ValueState {
  bool flexible = false;          // recomputed in every sharding that is requested
  ir::Sharding preferred;         // its sharding, or what it would be if nobody requests another
  std::vector<Version> versions;  // the first is the value as it was made
};

class LocalValues {
 public:
  LocalValues(const ir::Graph& global, const ir::Mesh& mesh)
      : global_(global), mesh_(mesh), states_(global.values().size()) {}

  ValueState& operator[](ir::ValueId value) { return states_[value.index]; }
  const ValueState& operator[](ir::ValueId value) const { return states_[value.index]; }

  /// After the global program has grown.
  void extend() { states_.resize(global_.values().size()); }

  /// From now on the value is sharded so.
  void settle(ir::ValueId value, const ir::Sharding& sharding, ir::ValueId local);

  /// Keeps another version, and returns its part.
  ir::ValueId remember(ir::ValueId value, const ir::Sharding& sharding, ir::ValueId local);

  /// Null: it was not made so yet.
  const Version* find(ir::ValueId value, const ir::Sharding& sharding) const;

  /// One from which the way to `to` is free, else the value as it was made.
  Version cheapest(ir::ValueId value, const ir::Sharding& to) const;

  /// What a chip sends to have the value so.
  int64_t bytes_to(ir::ValueId value, const ir::Sharding& to) const;

 private:
  const ir::Graph& global_;
  const ir::Mesh& mesh_;
  std::vector<ValueState> states_;  // by global value
};

}  // namespace megacpp::partition
