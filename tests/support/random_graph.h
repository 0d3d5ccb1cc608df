// SPDX-License-Identifier: Apache-2.0
// Small random graphs for property tests of compiler passes: elementwise ops, broadcasts, reductions, products,
// reshapes and transposes over a handful of shapes, with several outputs, some of which replace the state they were
// computed beside.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "megacpp/base/philox.h"
#include "megacpp/ops/builder.h"

namespace megacpp::testing_support {

class RandomGraph {
 public:
  RandomGraph(uint64_t seed, int nodes)
      : random_(seed, "graph"), graph_("random" + std::to_string(seed)), builder_(graph_) {
    const std::vector<ir::Shape> shapes = {{2, 3, 4}, {3, 4}, {4, 3}, {2, 3}, {4}, {3}, {}};
    for (size_t i = 0; i < shapes.size(); ++i)
      values_.push_back(builder_.input("x" + std::to_string(i), {ir::DType::f32, shapes[i]}, ir::Role::batch));
    for (const ir::ValueId id : values_) states_.push_back(id);
    for (int i = 0; i < nodes; ++i) values_.push_back(next());
    add_outputs();
  }

  ir::Graph take() { return std::move(graph_); }

 private:
  uint64_t draw(uint64_t below) { return random_.word(at_++) % below; }
  const ir::Shape& shape(ir::ValueId id) const { return graph_.type(id).shape; }

  // Recent values are likelier, so that graphs grow deep and have dead ends too.
  ir::ValueId any() {
    const uint64_t recent = std::min<uint64_t>(values_.size(), 6);
    return draw(3) == 0 ? values_[draw(values_.size())] : values_[values_.size() - 1 - draw(recent)];
  }

  ir::ValueId like(ir::ValueId other) {
    std::vector<ir::ValueId> fitting;
    for (const ir::ValueId id : values_)
      if (shape(id) == shape(other)) fitting.push_back(id);
    return fitting[draw(fitting.size())];
  }

  ir::ValueId next() {
    const ir::ValueId a = any();
    switch (draw(10)) {
      case 0:
        return builder_.tanh(a);
      case 1:
        return builder_.one(draw(2) == 0 ? "neg" : "sin", {a});
      case 2:
        return builder_.add(a, like(a));
      case 3:
        return builder_.tanh(builder_.mul(a, like(a)));
      case 4:
        return builder_.select(builder_.compare(a, like(a), "lt"), a, like(a));
      case 5:
        return widened(a);
      case 6:
        return reduced(a);
      case 7:
        return product(a);
      case 8:
        return reshaped(a);
      default:
        return builder_.max(a, builder_.constant(0.25 * static_cast<double>(draw(4))));
    }
  }

  ir::ValueId widened(ir::ValueId a) {
    if (shape(a).size() > 2) return builder_.offset(a, 0.5);
    ir::Shape wide = shape(a);
    const auto where = static_cast<int64_t>(draw(wide.size() + 1));
    wide.insert(wide.begin() + where, 2 + static_cast<int64_t>(draw(3)));
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < static_cast<int64_t>(wide.size()); ++d)
      if (d != where) dims.push_back(d);
    return builder_.broadcast(a, wide, dims);
  }

  ir::ValueId reduced(ir::ValueId a) {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < static_cast<int64_t>(shape(a).size()); ++d)
      if (draw(2) == 0) dims.push_back(d);
    if (dims.empty()) return builder_.scale(a, 0.5);
    return draw(2) == 0 ? builder_.tanh(builder_.reduce_sum(a, dims)) : builder_.reduce_max(a, dims);
  }

  // Contracts the last dimension of `a` with one of the same size, when another value has it.
  ir::ValueId product(ir::ValueId a) {
    for (int tries = 0; tries < 8 && !shape(a).empty(); ++tries) {
      const ir::ValueId b = any();
      for (size_t d = 0; d < shape(b).size(); ++d) {
        if (shape(b)[d] != shape(a).back() || shape(a).size() + shape(b).size() > 5) continue;
        const auto last = static_cast<int64_t>(shape(a).size()) - 1;
        return builder_.dot(a, b, {.lhs_contract = {last}, .rhs_contract = {static_cast<int64_t>(d)}});
      }
    }
    return builder_.neg(a);
  }

  ir::ValueId reshaped(ir::ValueId a) {
    if (shape(a).size() < 2) return builder_.reshape(a, {ir::num_elements(shape(a)), 1});
    if (draw(2) == 0) return builder_.reshape(a, {ir::num_elements(shape(a))});
    std::vector<int64_t> permutation;
    for (int64_t d = static_cast<int64_t>(shape(a).size()); d-- > 0;) permutation.push_back(d);
    return builder_.transpose(a, permutation);
  }

  // An output is never an input itself: the old value of a state is gone once it is replaced.
  ir::ValueId computed(ir::ValueId value) {
    ir::ValueId root = value;
    while (graph_.producer(root).op == "reshape") root = graph_.producer(root).operands[0];
    return graph_.producer(root).op == ir::kInputOp ? builder_.neg(value) : value;
  }

  void add_outputs() {
    for (size_t i = 0; i < 4; ++i) graph_.add_output({.name = "out" + std::to_string(i), .value = computed(any())});
    for (size_t s = 0; s < states_.size(); s += 2) {
      const std::string name = "x" + std::to_string(s);
      graph_.add_output({.name = "next." + name, .value = computed(like(states_[s])), .donated = name});
    }
  }

  base::Philox random_;
  uint64_t at_ = 0;
  ir::Graph graph_;
  ops::Builder builder_;
  std::vector<ir::ValueId> values_, states_;
};

inline ir::Graph random_graph(uint64_t seed, int nodes) { return RandomGraph(seed, nodes).take(); }

}  // namespace megacpp::testing_support
