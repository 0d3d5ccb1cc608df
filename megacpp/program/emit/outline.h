// SPDX-License-Identifier: Apache-2.0
// Finds what a program repeats. The nodes of a block stand together, once in the forward pass and once in the backward
// pass, and what comes after all blocks of the latter, as sums of gradients, is drawn to it; blocks of one kind differ
// only in the values they read. Each kind becomes one function, called once per block, so that a program's text grows
// with its distinct blocks and not with its depth.
#pragma once

#include <cstddef>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::emit {

/// Nodes of one block that can run one after the other.
struct Piece {
  std::vector<size_t> nodes;        // ascending
  std::vector<ir::ValueId> reads;   // made elsewhere, in order of first use
  std::vector<ir::ValueId> leaves;  // read elsewhere, in order of making
  /// The first piece of the same kind, maybe this one itself; nodes of equal place are equal but for scopes.
  size_t kind = 0;
  bool is_repeated = false;  // whether its kind has more than one piece
  bool is_return = false;    // an earlier piece is of the same block: this is its backward pass
  /// Of such a one: products, collectives, convolutions or recurrences, or what these read, transposed or converted
  /// too, compute again what an earlier piece has computed.
  bool recomputes = false;
};

/// Pieces in an order they can run in, over all nodes that are no inputs; what is made outside blocks, of constants and
/// the batch alone, is the first piece. Linear in the graph's size.
std::vector<Piece> outline(const ir::Graph& graph);

}  // namespace megacpp::emit
