// SPDX-License-Identifier: Apache-2.0
// Refuses a program in which a reshard that nobody requested leaves too many bytes whole on every chip of an axis. All
// reshards are shown to it first, so that what it names as the next step is enough for the largest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "megacpp/core/ir/mesh.h"

namespace megacpp::partition {

class ReplicationGate {
 public:
  /// `degree_keys`: the recipe key behind each axis, steps left out: "model" -> "layout.tensor_parallel".
  ReplicationGate(const ir::Mesh& mesh, int64_t max_bytes, const std::map<std::string, std::string>& degree_keys)
      : mesh_(mesh), max_bytes_(max_bytes), degree_keys_(degree_keys) {}

  /// Whether a chip would hold more after it than before, and more than is allowed.
  bool refuses(const ir::TensorType& whole, const ir::Sharding& from, const ir::Sharding& to) const;

  struct Reshard {
    std::string tensor, reader;  // what moves, and who wants it so
    ir::TensorType whole;
    ir::Sharding from, to;
  };
  /// One that is refused.
  void add(const Reshard& reshard);

  /// E1408 for the largest of those added.
  void check() const;

 private:
  struct Refused {
    Reshard reshard;
    int64_t before = 0, after = 0;  // bytes of one chip
  };

  int64_t local_bytes(const ir::TensorType& whole, const ir::Sharding& sharding) const;
  /// Axes that split the tensor before and no longer do.
  ir::Axes gathered(const ir::Sharding& from, const ir::Sharding& to) const;
  /// `allowed`: the setting that lets the gather pass.
  std::string next_step(const ir::Axes& gathered, const std::string& allowed) const;

  const ir::Mesh& mesh_;
  int64_t max_bytes_;
  const std::map<std::string, std::string>& degree_keys_;
  std::optional<Refused> largest_;
};

}  // namespace megacpp::partition
