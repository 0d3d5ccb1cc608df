// SPDX-License-Identifier: Apache-2.0
// How a `fused` node is spread over blocks and threads: a function of the node alone, so that its workspace is known
// where there is no GPU. The iteration space is kept rows times the elements of a row; folds run along rows. Without
// folds there is one row. Neighbouring dimensions that every input steps through as through one are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/tile_program.h"

namespace megacpp::runtime::cuda {

/// Threads of a block of every generated kernel.
inline constexpr int64_t kTileThreads = 256;
/// Enough blocks for every multiprocessor of any card several times over: rows are cut into no more parts together.
inline constexpr int64_t kEnoughBlocks = 1024;
/// Most results of one program: the parameters of its kernels hold an address for each.
inline constexpr size_t kMaxTileResults = 64;

inline constexpr int64_t kPartialBytes = 4;  // of a partial result, f32

struct TileDims {
  std::vector<int64_t> sizes = {};
  std::vector<std::vector<int64_t>> strides = {};  // of each input, elements, by dimension
};

/// What a launch is told of a plan.
struct TileSizes {
  bool has_folds = false;
  int64_t vectors = 0;       // of a row
  int64_t part_vectors = 0;  // of a part of one
  int64_t parts = 1;         // of a row
  int64_t blocks = 0;        // of the first pass
};

/// A node that may be an entry of a table (tile_source.h), together with others of the same source.
struct TableTile {
  TileSizes sizes;
  std::string source;
  size_t max_entries = 1;
};

struct TilePlan {
  ops::TileProgram program;
  TileDims kept = {};        // dimensions of the rows; empty without folds
  TileDims row = {};         // dimensions inside a row
  int64_t rows = 1;          // kept
  int64_t row_elements = 0;  // of one row
  int64_t vector = 1;        // neighbouring elements that a thread reads and writes at once; divides a row
  bool has_folds = false;    // the rest counts with folds only
  int64_t lanes = 1;         // threads of a row or of a part of one; a power of two
  int64_t parts = 1;         // of a row: folded by themselves first, then together in their order
  int64_t part_vectors = 0;  // of each part but perhaps the last
  int64_t folds = 0;         // outputs that fold

  int64_t elements() const { return rows * row_elements; }
  /// One row that every input steps through as through one dimension, or not at all: sizes are all that tells nodes
  /// with the same program apart.
  bool is_flat() const { return rows == 1 && kept.sizes.empty() && row.sizes.size() <= 1; }
  int64_t row_vectors() const { return row_elements / vector; }
  /// Steps between neighbours of the innermost dimension: 1 contiguous, 0 repeated.
  int64_t inner_stride(size_t input) const { return row.sizes.empty() ? 0 : row.strides[input].back(); }
  /// Blocks of the first pass. The second, where rows have parts, has one for each row.
  int64_t blocks() const;
  TileSizes sizes() const;
  /// Partial results: f32 [folds, rows, parts], of each fold up to kEnoughBlocks.
  int64_t workspace_bytes() const { return parts > 1 ? folds * rows * parts * kPartialBytes : 0; }
};

TilePlan plan_tiles(const ops::NodeView& view);

}  // namespace megacpp::runtime::cuda
