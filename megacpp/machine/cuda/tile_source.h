// SPDX-License-Identifier: Apache-2.0
// CUDA C++ text for a `fused` node, compiled when a program is loaded. Sizes, strides and constants stand in the text
// as numbers, but of a flat node (TilePlan::is_flat) the sizes are parameters: nodes that differ in them alone have the
// same text, and one launch serves several of them, each with an entry of a table. The text needs no header: what it
// uses it defines itself. Arithmetic is f32, each op as ops/scalar_ops has it. A kernel is written as statements of all
// threads of its block (EACH_THREAD), with barriers between them and nothing kept across but shared memory and what is
// the same for the whole block: a CPU runs the same text with loops in their place, which is how it is tested.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "megacpp/machine/cuda/tile_plan.h"

namespace megacpp::runtime::cuda {

/// Addresses of one node.
struct TileBuffers {
  std::span<const uint64_t> operands = {};
  std::span<const uint64_t> results = {};
  uint64_t partials = 0;  // f32 [folds, rows, parts]
};

/// The parameters of a node's kernels, as the text declares them: struct Entry.
struct TileEntry {
  std::array<uint64_t, ops::kMaxTileInputs + kMaxTileResults + 4> words = {};
  size_t count = 0;  // of the words, in use

  std::span<const uint64_t> used() const { return {words.data(), count}; }
};
/// `first_block` counts in a table.
TileEntry tile_entry(const TileSizes& sizes, const TileBuffers& buffers, uint32_t first_block = 0);

/// Words of an entry, and how many entries the table of one launch holds.
size_t tile_entry_words(const TilePlan& plan, const ops::NodeView& view);
size_t max_tile_entries(size_t entry_words);

/// Names of the kernels in the text. The first has TilePlan::blocks() blocks, the second, for nodes whose rows have
/// parts, TilePlan::rows; all of kTileThreads threads.
inline constexpr const char* kTileKernel = "fused";
inline constexpr const char* kTileCombineKernel = "fused_combine";
/// The same for several flat nodes of the same text. Their parameter is a table: a word with how many entries are in
/// use and, for recorders of launches, the words of each; then max_tile_entries() of them, the first blocks of those in
/// use ascending. The first kernel has the blocks of all, the second one for each entry.
inline constexpr const char* kTileBatchKernel = "fused_batch";
inline constexpr const char* kTileCombineBatchKernel = "fused_combine_batch";

/// What the device gives meaning to: the text of a kernel is these, then tile_helpers, then tile_kernels. A test has
/// its own in place of the first.
std::string tile_device_macros();
/// Loads, stores and conversions.
std::string tile_helpers();
/// The kernels of one node.
std::string tile_kernels(const TilePlan& plan, const ops::NodeView& view);

/// The whole text.
std::string tile_source(const TilePlan& plan, const ops::NodeView& view);

}  // namespace megacpp::runtime::cuda
