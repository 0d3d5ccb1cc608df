// SPDX-License-Identifier: Apache-2.0
// Conversions of weights to bf16, out of a program that runs several times a step: the program reads copies of weights
// that another one makes once. What is computed stays the same to the bit.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::schedule {

inline std::string copy_name(ir::DType dtype, const std::string& weight) {
  return std::string(ir::dtype_name(dtype)) + "." + weight;
}

/// State that holds a weight in a narrow dtype, as a chip has it, for the length of a step.
struct WeightCopy {
  std::string weight;  // name of the f32 state
  std::string scope;   // of both
  ir::Shape shape;
  ir::DType dtype = ir::DType::bf16;  // of the copy

  std::string name() const { return copy_name(dtype, weight); }
};

struct ConvertOnce {
  ir::Graph graph;
  std::vector<WeightCopy> copies;  // that it reads, in the order of its inputs
};

/// How many nodes of a program convert each of its inputs to bf16. Of a weight with one such node the result stays from
/// the forward to the backward pass, and a copy in its place takes no more while the peak is between them; with
/// several, where blocks are recomputed or weights gathered again, a copy would be held for longer than what each of
/// them makes.
std::map<std::string, int64_t> count_conversions(const ir::Graph& graph);

/// `graph` is what one chip runs of a micro-step, before fusion; it replaces no weight. A convert of an input that
/// `weights` names becomes an input of role weight_copy, and the weight is an input no more if nothing else read it.
/// Left alone is a convert that fusion may put into a cluster with what reads it, which then gets the number before it
/// is rounded: one that elementwise work of its own shape, or a reduction, reads. And one of a shard that is gathered.
ConvertOnce read_copies(const ir::Graph& graph, const std::set<std::string>& weights);

/// Whether it would read any.
bool has_copies_to_read(const ir::Graph& graph, const std::set<std::string>& weights);

/// The program that makes them: it reads the weights and replaces the copies.
ir::Graph make_copies(const std::vector<WeightCopy>& copies);

}  // namespace megacpp::schedule
