// SPDX-License-Identifier: Apache-2.0
// Divides a graph into parts that run one after the other: pipeline stages, or the passes of one stage. A value that a
// later part reads becomes an output of the part that makes it and an input of the same name, role activation (weight
// where it is made of weights alone), of the part that reads it. Inputs, and nodes that are cheaper to run again than
// to hand over, stand in every part that reads them. Run in order with such values handed over, the parts compute what
// the graph computes, bit for bit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::partition {

/// relayed: handed from part to neighbouring part, through those that do not read it. direct: to its readers only.
enum class HandOver : uint8_t { relayed, direct };

struct Division {
  std::vector<std::string> parts;  // names, in order of running; appended to the graph's name
  /// By node. Inputs and repeated nodes stand here when nothing reads them, or when they are outputs.
  std::vector<size_t> part_of;
  std::vector<bool> is_repeated;  // by node: runs again in each part that reads it
  std::string prefix;             // of the names of values handed over: "carry." gives carry.0, carry.weight.1, ...
  HandOver hand_over = HandOver::relayed;
};

struct Crossing {
  std::string name;
  ir::ValueId value;  // in the whole graph
  size_t made_in = 0;
  size_t last_read_in = 0;
};

struct Part {
  ir::Graph graph;
  std::vector<ir::ValueId> values;  // by value of the whole graph: the same here; index UINT32_MAX where it is absent
};

struct Divided {
  std::vector<Part> parts;
  std::vector<Crossing> crossings;  // in the order of their values
};

/// An output stands in the part that makes its value; so does the input it donates. No node may read a value of a later
/// part.
Divided divide_graph(const ir::Graph& graph, const Division& division);

/// Stands behind the prefix in the name of a value that is made of weights alone: the same for every micro-batch.
inline constexpr std::string_view kOfWeights = "weight.";

/// By node: whether it depends on weights alone, on batch inputs alone, or on neither. Such values are the same in
/// every part, and small or cheap next to activations: converted weights, rotation tables, masks, counts of labels.
std::vector<bool> depends_on_inputs_alone(const ir::Graph& graph);

/// By node: whether it depends on weights and on nothing else.
std::vector<bool> depends_on_weights_alone(const ir::Graph& graph);

}  // namespace megacpp::partition
