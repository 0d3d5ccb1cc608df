// SPDX-License-Identifier: Apache-2.0
// A named mesh of chips and how tensors are sharded over it. A mesh is an ordered list of axes, major first; chip
// numbers count row-major over them. An axis of the layout that tensors must split in two steps (8 chips over 2 KV
// heads of 4 query heads each) stands as several axes here, "model.0" and "model.1"; a spec names both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/tensor_type.h"

namespace megacpp::ir {

using AxisId = uint8_t;            // position in Mesh::axes()
using Axes = std::vector<AxisId>;  // ordered, major first

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  Mesh() = default;
  explicit Mesh(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int64_t chips() const { return chips_; }
  int64_t size(AxisId axis) const { return axes_[axis].size; }
  int64_t size(const Axes& axes) const;  // of the group along them
  AxisId axis(std::string_view name) const;
  const std::string& name(AxisId axis) const { return axes_[axis].name; }

  int64_t coordinate(int64_t chip, AxisId axis) const;
  /// Position of the chip in its group along `axes`, row-major in the order given.
  int64_t index_in_group(int64_t chip, const Axes& axes) const;
  /// The chips that differ from `chip` along `axes` only, by index_in_group.
  std::vector<int64_t> group(int64_t chip, const Axes& axes) const;

  bool operator==(const Mesh&) const = default;

 private:
  std::vector<MeshAxis> axes_;
  std::vector<int64_t> strides_;  // in chips
  int64_t chips_ = 1;
};

/// Those that a degree of the layout stands as: "model" is model.0 and model.1 too.
Axes axes_named(const Mesh& mesh, std::string_view degree);

std::string to_string(const Mesh& mesh);  // "data=2, model=4"; "one chip" without axes

/// Axes by name, joined by '+': "data+expert"; "-" for none.
std::string to_string(const Axes& axes, const Mesh& mesh);
Axes parse_axes(std::string_view text, const Mesh& mesh);

/// How one tensor is sharded over the mesh: for each dimension the axes that split it, and the axes over which chips
/// hold partial sums. An axis stands at most once.
struct Sharding {
  std::vector<Axes> dims;
  Axes unreduced = {};  // sorted

  static Sharding replicated(size_t rank) { return {.dims = std::vector<Axes>(rank)}; }
  bool splits(AxisId axis) const;
  bool is_replicated() const;  // whole and reduced on every chip
  bool operator==(const Sharding&) const = default;
};

/// "data+expert,context,-" and, with partial sums, "-,model ~ data". A scalar without partial sums is "".
std::string to_string(const Sharding& sharding, const Mesh& mesh);
Sharding parse_sharding(std::string_view text, const Mesh& mesh);

/// Elements of a dimension that one chip stores: each axis in turn splits what is left, rounded up. The last chips of a
/// size that does not divide hold padding.
int64_t local_size(int64_t size, const Axes& axes, const Mesh& mesh);
Shape local_shape(const Shape& shape, const Sharding& sharding, const Mesh& mesh);

/// The part of a dimension that is real on one chip: elements [first, first + count) of the whole.
struct LocalRange {
  int64_t first = 0;
  int64_t count = 0;
};
LocalRange local_range(int64_t size, const Axes& axes, const Mesh& mesh, int64_t chip);

/// A contiguous stretch of a chip's part: elements of the whole tensor and of the part, both row-major.
struct LocalRun {
  int64_t whole = 0;  // first element
  int64_t local = 0;
  int64_t count = 0;
};
/// All real elements of a chip's part, in order.
std::vector<LocalRun> local_runs(const Shape& shape, const Sharding& sharding, const Mesh& mesh, int64_t chip);

/// Whether every chip holds as much, so that no chip has padding.
bool divides(int64_t size, const Axes& axes, const Mesh& mesh);

}  // namespace megacpp::ir
