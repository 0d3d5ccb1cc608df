// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/partition/divide_graph.h"

#include <map>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::partition {
namespace {

using ir::NodeId;
using ir::ValueId;

struct Reads {
  bool weights = false, batch = false, other = false;
};

// By node: the inputs it depends on.
std::vector<Reads> reads_of(const ir::Graph& graph) {
  std::vector<Reads> reads(graph.nodes().size());
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const ir::Node& node = graph.nodes()[n];
    if (node.op == ir::kInputOp) {
      reads[n].weights = node.role == ir::Role::weight;
      reads[n].batch = node.role == ir::Role::batch;
      reads[n].other = !reads[n].weights && !reads[n].batch;
    }
    for (const ValueId operand : node.operands) {
      const Reads& from = reads[graph.value(operand).producer.index];
      reads[n].weights = reads[n].weights || from.weights;
      reads[n].batch = reads[n].batch || from.batch;
      reads[n].other = reads[n].other || from.other;
    }
  }
  return reads;
}

class Divider {
 public:
  Divider(const ir::Graph& graph, const Division& division)
      : graph_(graph),
        division_(division),
        parts_(division.parts.size()),
        is_of_weights_(depends_on_weights_alone(graph)),
        stands_in_(parts_, std::vector<bool>(graph.nodes().size(), false)),
        enters_(parts_, std::vector<bool>(graph.values().size(), false)) {}

  Divided run() {
    mark_needs();
    Divided result;
    result.crossings = find_crossings();
    for (size_t part = 0; part < parts_; ++part) result.parts.push_back(build(part, result.crossings));
    return result;
  }

 private:
  bool is_shared(size_t node) const { return graph_.nodes()[node].op == ir::kInputOp || division_.is_repeated[node]; }
  bool is_of_weights(ValueId value) const { return is_of_weights_[graph_.value(value).producer.index]; }
  size_t home(ValueId value) const { return division_.part_of[graph_.value(value).producer.index]; }

  void mark_needs() {
    std::vector<bool> is_read(graph_.values().size(), false);
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      for (const ValueId operand : node.operands) is_read[operand.index] = true;
      if (is_shared(n)) continue;
      stands_in_[division_.part_of[n]][n] = true;
      for (const ValueId operand : node.operands) need(operand, division_.part_of[n]);
    }
    std::map<std::string_view, size_t> donated_in;  // input -> part of the output that takes it over
    for (const ir::Output& output : graph_.outputs()) {
      need(output.value, home(output.value));
      if (!output.donated.empty()) donated_in[output.donated] = home(output.value);
    }
    for (const NodeId id : graph_.inputs()) {
      const ValueId value = graph_.node(id).results[0];
      const auto donated = donated_in.find(graph_.node(id).attrs.text("name"));
      if (donated != donated_in.end()) {
        need(value, donated->second);
        for (size_t part = donated->second + 1; part < parts_; ++part)
          MEGACPP_CHECK(!stands_in_[part][id.index])
              << "input '" << donated->first << "' is read in a part after the one that replaces it";
      } else if (!is_read[value.index]) {  // inputs are the program's contract: they stay when nothing reads them
        need(value, home(value));
      }
    }
  }

  void need(ValueId value, size_t part) {
    const NodeId producer = graph_.value(value).producer;
    if (!is_shared(producer.index)) {
      MEGACPP_CHECK(home(value) <= part) << graph_.node(producer).op << " @" << graph_.node(producer).scope
                                         << " runs in a later part than one that reads it";
      if (home(value) < part) enters_[part][value.index] = true;
      return;
    }
    if (stands_in_[part][producer.index]) return;
    stands_in_[part][producer.index] = true;
    for (const ValueId operand : graph_.node(producer).operands) need(operand, part);
  }

  std::vector<Crossing> find_crossings() {
    std::vector<Crossing> crossings;
    for (uint32_t v = 0; v < graph_.values().size(); ++v) {
      size_t last = 0;
      for (size_t part = 0; part < parts_; ++part)
        if (enters_[part][v]) last = part;
      if (last == 0) continue;
      const size_t made_in = home(ValueId{v});
      if (division_.hand_over == HandOver::relayed)
        for (size_t part = made_in + 1; part < last; ++part) enters_[part][v] = true;
      const std::string kind(is_of_weights(ValueId{v}) ? kOfWeights : "");
      crossings.push_back({division_.prefix + kind + std::to_string(crossings.size()), ValueId{v}, made_in, last});
    }
    return crossings;
  }

  Part build(size_t part, const std::vector<Crossing>& crossings) {
    Part result{.graph = ir::Graph(graph_.name() + "." + division_.parts[part]),
                .values = std::vector<ValueId>(graph_.values().size())};
    ops::Builder builder(result.graph);
    size_t next = 0;  // crossings and nodes are both in the order of values
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      const ir::Node& node = graph_.nodes()[n];
      if (stands_in_[part][n]) copy(node, result);
      for (; next < crossings.size() && graph_.value(crossings[next].value).producer.index == n; ++next) {
        const ValueId value = crossings[next].value;
        if (!enters_[part][value.index]) continue;
        builder.set_scope(node.scope);
        const ir::Role role = is_of_weights(value) ? ir::Role::weight : ir::Role::activation;
        result.values[value.index] = builder.input(crossings[next].name, graph_.type(value), role);
      }
    }
    add_outputs(part, crossings, result);
    return result;
  }

  void copy(const ir::Node& node, Part& result) const {
    ir::Node copy = node;
    for (ValueId& operand : copy.operands) operand = result.values[operand.index];
    const NodeId id = result.graph.append(std::move(copy), graph_.result_types(node));
    for (size_t r = 0; r < node.results.size(); ++r)
      result.values[node.results[r].index] = result.graph.node(id).results[r];
  }

  void add_outputs(size_t part, const std::vector<Crossing>& crossings, Part& result) const {
    for (const ir::Output& output : graph_.outputs())
      if (home(output.value) == part)
        result.graph.add_output({output.name, result.values[output.value.index], output.donated});
    for (const Crossing& crossing : crossings) {
      const bool relays = division_.hand_over == HandOver::relayed && crossing.made_in < part;
      if ((crossing.made_in == part || relays) && part < crossing.last_read_in)
        result.graph.add_output({.name = crossing.name, .value = result.values[crossing.value.index]});
    }
  }

  const ir::Graph& graph_;
  const Division& division_;
  const size_t parts_;
  const std::vector<bool> is_of_weights_;     // by node
  std::vector<std::vector<bool>> stands_in_;  // [part][node]
  std::vector<std::vector<bool>> enters_;     // [part][value]: handed over to it
};

}  // namespace

Divided divide_graph(const ir::Graph& graph, const Division& division) {
  MEGACPP_CHECK(division.part_of.size() == graph.nodes().size() && division.is_repeated.size() == graph.nodes().size())
      << "a division speaks of every node";
  return Divider(graph, division).run();
}

std::vector<bool> depends_on_inputs_alone(const ir::Graph& graph) {
  std::vector<bool> alone;
  for (const Reads& reads : reads_of(graph)) alone.push_back(!reads.other && !(reads.weights && reads.batch));
  return alone;
}

std::vector<bool> depends_on_weights_alone(const ir::Graph& graph) {
  std::vector<bool> alone;
  for (const Reads& reads : reads_of(graph)) alone.push_back(reads.weights && !reads.batch && !reads.other);
  return alone;
}

}  // namespace megacpp::partition
