// SPDX-License-Identifier: Apache-2.0
// `fused` nodes as passes make and change them: a tile program beside the values that it reads and leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/ops/tile_program.h"
#include "megacpp/program/schedule/rewrite.h"

namespace megacpp::schedule {

/// Most ops of one program. Longer ones stop paying: their registers no longer fit the first-level cache.
inline constexpr size_t kMaxTileOps = 40;

/// A `fused` node taken apart.
struct TileCluster {
  ir::Shape shape;  // iteration shape
  ops::TileProgram program;
  std::vector<ir::ValueId> operands;  // one for each input instruction, in order
  std::vector<ir::ValueId> results;   // one for each output, in order
  std::string scope;
  ir::Role role = ir::Role::temporary;

  size_t ops() const;
  /// Whether operand i has the iteration shape, read element by element.
  bool is_whole(size_t operand) const;
  /// Whether it is no larger than what passes may make: by its ops, its operands, and the tensors of the iteration
  /// shape that it reads and writes.
  bool is_within_limits() const;
};

TileCluster take_apart(const ir::Node& fused);

/// Appends a cluster of values of `from`, the rewriter's old graph, as a `fused` node.
void append_fused(Rewriter& rewriter, const ir::Graph& from, TileCluster cluster);

/// Collects one tile program. Each distinct operand is loaded once; a constant, and an op of the same registers,
/// appear once.
class TileBuilder {
 public:
  /// A register of this program for a register of another; none: it is to be computed here too.
  using Replace = std::function<std::optional<int>(int reg)>;

  explicit TileBuilder(ir::Shape shape) { cluster_.shape = std::move(shape); }

  /// Dimension i of the value is iteration dimension dims[i].
  int load(ir::ValueId value, const std::vector<int64_t>& dims);
  int constant(double value);
  int scalar(const ops::ScalarOp* op, std::vector<int> args);
  void output(ops::TileOutput output, ir::ValueId value);

  /// What `from` has in these registers, computed here: the registers that hold it, in order. `from` iterates over the
  /// same shape.
  std::vector<int> import(const TileCluster& from, const std::vector<int>& registers, const Replace& replace);
  /// Imports what its outputs need, and leaves them here too.
  void import_outputs(const TileCluster& from, const Replace& replace);

  TileCluster take(std::string scope, ir::Role role);

 private:
  struct Import;
  int import_one(Import& import, int reg);
  int add(ops::TileInstruction instruction);

  TileCluster cluster_;
  std::map<uint64_t, int> constants_;  // by bits: NaN equals nothing, and -0.0 is not 0.0
  std::map<std::pair<uint32_t, std::vector<int64_t>>, int> loads_;
  std::map<std::pair<std::string_view, std::vector<int>>, int> scalars_;
};

}  // namespace megacpp::schedule
