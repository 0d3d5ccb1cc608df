// SPDX-License-Identifier: Apache-2.0
// Finds the loop over blocks in a program. A model repeats its pattern, so most of its blocks come again and again in
// the same order, in the forward pass, backwards in the backward pass, and once more in the update. Each such pass is
// written as one loop over stacked tensors: XLA inlines calls, so only a loop keeps its work independent of the depth.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "megacpp/core/ir/graph.h"
#include "megacpp/program/emit/outline.h"

namespace megacpp::emit {

/// A graph and its pieces.
struct Outlined {
  const ir::Graph& graph;
  std::vector<Piece> pieces;
};
Outlined outlined(const ir::Graph& graph);

/// Blocks that repeat: `count` times the same `period` of kinds, in every one of the graphs.
struct BlockLoop {
  size_t period = 0, count = 0;
  std::unordered_map<std::string, size_t> places;  // by name of the block: 0 .. period x count - 1
};

/// The loop that saves the most blocks; nothing when no block comes twice. Blocks are in the order of the first graph.
std::optional<BlockLoop> find_block_loop(std::span<const Outlined* const> graphs);

/// Where a piece of a pass gets a value it reads.
struct PassRead {
  enum class From {
    same_iteration,      // a leaf of the pass
    previous_iteration,  // the same; the first iteration reads values[0]
    always,              // values[0], made before the pass
    each,                // values[j] for iteration j, all made before the pass
  } from;
  size_t piece = 0, leaf = 0;  // where the pass makes it
  std::vector<ir::ValueId> values = {};
};

/// What a piece of a pass makes, in all iterations.
struct PassLeaf {
  std::vector<ir::ValueId> values;  // by iteration
  bool is_carried = false;          // the next iteration reads it
  ir::ValueId entering = {};        // what the first iteration reads there
};

/// `width` pieces, `count` times: pieces [first, first + width x count) of the graph.
struct Pass {
  size_t first = 0, width = 0, count = 0;
  bool is_descending = false;                 // the last blocks come first
  std::vector<std::vector<PassRead>> reads;   // [piece of an iteration][read]
  std::vector<std::vector<PassLeaf>> leaves;  // [piece of an iteration][leaf]

  size_t last() const { return first + width * count; }
  /// Where iteration j stands in the order of blocks.
  size_t place(size_t iteration) const { return is_descending ? count - 1 - iteration : iteration; }
};

/// The graph's passes over the loop, in order. Runs of blocks that are wired otherwise are no passes.
std::vector<Pass> passes_of(const Outlined& outlined, const BlockLoop& loop);

/// Names of inputs that the passes read one of in each iteration, in the order of blocks.
std::vector<std::vector<std::string>> stacked_inputs(const Outlined& outlined, std::span<const Pass> passes);

/// Names of outputs that are no state (Output::donated) and that the passes make one of in each iteration, in the order
/// of blocks.
std::vector<std::vector<std::string>> stacked_reports(const Outlined& outlined, std::span<const Pass> passes);

}  // namespace megacpp::emit
