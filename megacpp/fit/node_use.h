// SPDX-License-Identifier: Apache-2.0
// How nodes find what they work on, on chips whose caches were measured (hw::Chip::moves): a place that was touched a
// while ago comes from a cache or from memory by how many bytes the chip has touched since. Offsets and order are known
// before step 0, so that is known of every byte: steps follow one another, and what one finds in the caches is what the
// one before left there.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "megacpp/compile/compile.h"
#include "megacpp/hw/chip.h"

namespace megacpp::fit {

/// Of the capacity of experts as much counts as even routing fills: our kernels skip empty rows.
struct NodeUse {
  double bytes = 0;    // of operands and results
  double seconds = 0;  // that moving them takes from where they are
  double waiting = 0;  // how much of that is because they are further away than hw::Chip::near of their kind of work
  double rows = 1;     // share of the capacity that counts
};

/// When the bytes of an arena were touched last.
class TouchedBytes {
 public:
  explicit TouchedBytes(int64_t arena_bytes) : arena_bytes_(arena_bytes) {}
  /// Touches [offset, offset + bytes); returns what that takes. What was touched never, or longer ago than the arena
  /// has bytes, is as far away as all of it.
  double touch(const std::vector<hw::MoveRate>& moves, int64_t offset, int64_t bytes);

 private:
  struct Piece {
    int64_t end;
    int64_t at;  // bytes that had been touched before
  };
  double seconds_of(const std::vector<hw::MoveRate>& moves, int64_t bytes, int64_t at) const;

  int64_t arena_bytes_;
  int64_t touched_ = 0;
  std::map<int64_t, Piece> pieces_;  // by their begin; they do not overlap
};

/// By program and node, of a step that is not the first; empty for a chip that has no such rates, or whose buffers have
/// no offsets. Programs count as if each ran once in a step, in their order. `mesh` is what they were compiled for.
std::vector<std::vector<NodeUse>> uses_in_step(const compile::StagePrograms& programs, const ir::Mesh& mesh,
                                               const hw::Chip& device);

}  // namespace megacpp::fit
