// SPDX-License-Identifier: Apache-2.0
// Which values of a program may be in the host's memory for a time (schedule/offload_activations.h): those that a block
// makes for the backward pass, large enough for a copy, with the time that nobody touches them. Weights in another
// type, what leaves the program otherwise, and what a collective is still bringing stay. The order of nodes is settled;
// nothing is changed here.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

/// A value and its time on the host. A program with both passes has all of it, one of a pass alone its part.
struct Activation {
  ir::ValueId value;
  std::optional<uint32_t> made = {};    // by this node; nothing: it comes in the host's memory
  uint32_t left = 0;                    // the last node that touches it before
  std::optional<uint32_t> wanted = {};  // the first that reads it behind; nothing: nobody does here
  std::string name = {};                // of the output it leaves as, or of the input it comes as, on the host
};

inline bool is_reshape(const ir::Node& node) { return node.op == "reshape"; }

/// A node that makes or reads a value, and the one until which it does: a collective reads until it is done.
struct Touch {
  uint32_t node, until;
};

/// Who touches each value, in itself or under other shapes.
class Touches {
 public:
  explicit Touches(const ir::Graph& graph);

  ir::ValueId root(ir::ValueId value) const { return roots_[value.index]; }
  /// In the order of nodes, the one that makes it first; reshapes are none.
  const std::vector<Touch>& of(ir::ValueId root) const { return by_root_[root.index]; }
  /// The node from which on nobody touches it.
  uint32_t end_of(ir::ValueId root) const;
  /// Whether the backward pass reads it, as autodiff has it.
  bool is_kept(ir::ValueId root) const { return is_kept_[root.index]; }

 private:
  ir::ValueId root_of_producer(const ir::Graph& graph, ir::ValueId value) const;
  void add(const ir::Graph& graph, uint32_t n);

  std::vector<ir::ValueId> roots_;           // by value: what it shows
  std::vector<uint32_t> until_;              // by node: where what it starts is done, or itself
  std::vector<std::vector<Touch>> by_root_;  // by value
  std::vector<bool> is_kept_;                // by value
};

/// With the longest time that nobody touches them. `least_bytes`: of a value.
std::vector<Activation> find_between_passes(const ir::Graph& graph, const Touches& touches, int64_t least_bytes);

/// Outputs with this prefix that may leave in the host's memory: nothing else of the program's is in the same bytes.
std::set<std::string> find_outputs(const ir::Graph& forward, const Touches& touches, std::string_view prefix,
                                   int64_t least_bytes);

/// Outputs, and inputs, of these names with their part of the time.
std::vector<Activation> named_outputs(const ir::Graph& forward, const Touches& touches,
                                      const std::set<std::string>& names);
std::vector<Activation> named_inputs(const ir::Graph& backward, const Touches& touches,
                                     const std::set<std::string>& names);

}  // namespace megacpp::schedule
