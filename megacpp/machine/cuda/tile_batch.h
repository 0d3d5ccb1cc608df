// SPDX-License-Identifier: Apache-2.0
// Several `fused` nodes as one launch. An update is the same cluster on every parameter: launched one by one, each pays
// for a gap before it and for multiprocessors that idle at its end. What is computed of each element, and the order of
// sums, is that of the nodes by themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "megacpp/machine/cuda/driver.h"
#include "megacpp/machine/cuda/function.h"
#include "megacpp/machine/cuda/kernel.h"
#include "megacpp/machine/cuda/launch_groups.h"
#include "megacpp/machine/cuda/tile_plan.h"

namespace megacpp::runtime::cuda {

class Toolbox;

/// Of the kernels of a generated text.
LaunchShape tile_launch(int64_t blocks);

/// A `fused` node with its addresses.
struct BoundTile {
  std::function<void()> run;            // by itself
  std::optional<TableTile> table = {};  // nothing: it is launched by itself
  std::vector<Address> operands = {};
  std::vector<Address> results = {};
  Address workspace = 0;
  std::vector<ByteRange> reads = {};   // operands
  std::vector<ByteRange> writes = {};  // results and workspace
};

/// What was prepared, for one place: `at` need not outlive it.
std::function<void()> bind_launch(std::function<void(const Launch&)> run, const Launch& at);
/// The same of a `fused` node, which needs `workspace` bytes.
BoundTile bind_tile(Prepared prepared, const ops::NodeView& view, int64_t workspace, const Launch& at);

/// The parameter of one launch for nodes of the same source, as the text declares it: struct Table.
struct TileTable {
  std::vector<uint64_t> words;  // as many as a kernel's parameters may be
  int64_t blocks = 0;           // of the first kernel
  bool combines = false;        // whether the second has anything to do
};
TileTable make_tile_table(std::span<const BoundTile* const> tiles);

/// The launches of a program in its order, collected at load. Neighbouring `fused` nodes may be joined and change
/// places among each other (launch_groups.h); nothing else moves.
class LaunchList {
 public:
  void add(std::function<void()> run);
  void add(BoundTile tile) { tiles_.push_back(std::move(tile)); }
  /// All of them, and begins anew. The toolbox outlives what is returned; launches are on the stream.
  std::vector<std::function<void()>> take(Toolbox& toolbox, Stream* stream);

 private:
  struct Run {
    std::vector<BoundTile> tiles;  // first
    std::function<void()> behind;  // then this
  };

  std::vector<Run> runs_;
  std::vector<BoundTile> tiles_;  // since the last of other kinds
};

}  // namespace megacpp::runtime::cuda
