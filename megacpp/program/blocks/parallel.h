// SPDX-License-Identifier: Apache-2.0
// How a model is spread over the mesh, in the words of the model: every dimension a layout may split has a name, and
// the layout says which mesh axes stand behind it. Blocks name the dimensions of their parameters and of the values
// where the spread changes; the default spreads nothing and leaves the graph of one chip. A name means a dimension of
// the block at hand, so a family may take any that fits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "megacpp/core/ir/mesh.h"

namespace megacpp::blocks {

enum class Dim : uint8_t {
  whole,        // never split
  batch,        // sequences, inside the model
  data,         // sequences where the expert axis is taken by experts: batch without it
  stream,       // tokens along the residual stream and its norms
  sequence,     // tokens inside a mixer
  heads,        // query heads
  kv_heads,     // key and value heads
  mlp,          // inner width of a dense feed-forward
  vocab,        // rows of the embedding, columns of the head
  experts,      // routed experts, on their owners
  expert_mlp,   // inner width of one expert
  tokens,       // chunks of tokens inside an expert block
  inner,        // heads of a scan, and its inner width
  groups,       // groups of heads that share projections
  width,        // width of a recurrence, by heads of its gates
  whole_heads,  // query heads while all-to-all context attention holds whole sequences
  whole_kv,     // the same for keys and values
};

struct Parallel {
  ir::Mesh mesh = {};
  std::map<Dim, ir::Axes> axes = {};  // absent: not split
  /// By letter of a block, where its parts are spread otherwise: blocks of one family may have other counts of heads.
  std::map<char, std::map<Dim, ir::Axes>> letter_axes = {};

  /// Equal runs of tokens a sequence is cut into where recurrences run in parallel: 1, or twice the size of `context`
  /// when the load-balanced order pairs early and late runs, or once.
  int64_t sequence_chunks = 1;
  /// The same for expert blocks, which may also split tokens over `model`.
  int64_t token_chunks = 1;
  /// Runs are stored as 0, C-1, 1, C-2, ..: chip c of n holds run c and run 2n-1-c.
  bool balanced_order = false;
  /// Attention with the sequence split passes keys and values around; false: it swaps heads for tokens.
  bool ring_attention = true;
  /// Tokens travel to their experts by all-gather instead of all-to-all.
  bool gathers_tokens = false;

  bool is_one_chip() const { return mesh.chips() == 1; }
  /// In blocks of a letter; 0: outside of blocks.
  const ir::Axes& axes_of(Dim dim, char letter = 0) const;
  ir::Sharding sharding(const std::vector<Dim>& dims, char letter = 0) const;
  /// As blocks of one letter see it.
  Parallel of_letter(char letter) const;

  /// For each stored run of a sequence cut into `chunks`, its place in time: the identity, or the balanced order.
  std::vector<int64_t> time_order(int64_t chunks) const;
};

}  // namespace megacpp::blocks
