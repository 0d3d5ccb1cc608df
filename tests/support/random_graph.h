// SPDX-License-Identifier: Apache-2.0
// Small random graphs for property tests of compiler passes: elementwise ops, broadcasts, reductions, products,
// reshapes and transposes over a handful of shapes, with several outputs, some of which replace the state they were
// computed beside. On request with what kernels with epilogues meet: sums of products and of norms' gradients, with and
// without addends, and bf16 beside f32.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/base/philox.h"
#include "megacpp/program/ops/builder.h"

namespace megacpp::testing_support {

/// What graphs have besides; without, the same seed gives the same graph.
struct RandomParts {
  bool sums = false;  // of products and gradients, which may have an addend already
  bool bf16 = false;  // converts, and products of bf16 that are summed in f32
};

class RandomGraph {
 public:
  RandomGraph(uint64_t seed, int nodes, const RandomParts& parts)
      : random_(seed, "graph"), parts_(parts), graph_("random" + std::to_string(seed)), builder_(graph_) {
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

  // Every value of the graph has at least itself; what is just being made may have none.
  std::optional<ir::ValueId> find_like(const ir::TensorType& type) {
    std::vector<ir::ValueId> fitting;
    for (const ir::ValueId id : values_)
      if (graph_.type(id) == type) fitting.push_back(id);
    return fitting.empty() ? std::nullopt : std::optional(fitting[draw(fitting.size())]);
  }
  ir::ValueId like(ir::ValueId other) { return find_like(graph_.type(other)).value(); }

  ir::ValueId next() {
    const ir::ValueId a = any();
    if (parts_.sums && draw(4) == 0) return draw(2) == 0 ? summed(product(a)) : norm_gradient(a);
    if (parts_.bf16 && draw(4) == 0) return draw(2) == 0 ? converted(a) : product(a, Product::narrow);
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
        return builder_.max(a, builder_.constant(0.25 * static_cast<double>(draw(4)), {}, graph_.type(a).dtype));
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

  enum class Product : uint8_t {
    plain,   // of one dtype
    narrow,  // of bf16, summed in f32 and converted to bf16
  };

  // Contracts the last dimension of `a` with one of the same size, when another value has it.
  ir::ValueId product(ir::ValueId a, Product kind = Product::plain) {
    for (int tries = 0; tries < 8 && !shape(a).empty(); ++tries) {
      const ir::ValueId b = any();
      if (kind == Product::plain && graph_.type(a).dtype != graph_.type(b).dtype) continue;
      for (size_t d = 0; d < shape(b).size(); ++d) {
        if (shape(b)[d] != shape(a).back() || shape(a).size() + shape(b).size() > 5) continue;
        const auto last = static_cast<int64_t>(shape(a).size()) - 1;
        const ops::Builder::DotDims dims{.lhs_contract = {last}, .rhs_contract = {static_cast<int64_t>(d)}};
        return kind == Product::plain ? builder_.dot(a, b, dims) : narrow_product(a, b, dims);
      }
    }
    return builder_.neg(a);
  }

  ir::ValueId narrow_product(ir::ValueId a, ir::ValueId b, const ops::Builder::DotDims& dims) {
    const ir::ValueId lhs = builder_.convert(a, ir::DType::bf16);
    const ir::ValueId rhs = builder_.convert(b, ir::DType::bf16);
    return builder_.convert(builder_.wide_dot(lhs, rhs, dims), ir::DType::bf16);
  }

  ir::ValueId converted(ir::ValueId a) {
    return builder_.convert(a, graph_.type(a).dtype == ir::DType::f32 ? ir::DType::bf16 : ir::DType::f32);
  }

  // With what has its type, where there is any: as an addend of its own node, or by an add.
  ir::ValueId summed(ir::ValueId a) {
    const ir::Node made = graph_.producer(a);
    const std::optional<ir::ValueId> other = find_like(graph_.type(a));
    if (!other) return a;
    if (made.op != "dot" || draw(3) != 0) return draw(2) == 0 ? builder_.add(a, *other) : builder_.add(*other, a);
    return builder_.one("dot", {made.operands[0], made.operands[1], *other}, made.attrs);
  }

  // Of a norm of `a`, where a gain of its size is there: the gradient of `a`, summed or not. That of the gain is a
  // value too.
  ir::ValueId norm_gradient(ir::ValueId a) {
    if (shape(a).empty()) return builder_.neg(a);
    const std::optional<ir::ValueId> gain = find_like({graph_.type(a).dtype, {shape(a).back()}});
    if (!gain) return builder_.neg(a);
    const ir::Attrs attrs{{"eps", 0.5}};
    const ir::ValueId rstd = builder_.node("rms_norm", {a, *gain}, attrs)[1];
    std::vector<ir::ValueId> operands = {a, *gain, rstd, like(a)};
    if (draw(3) == 0) operands.push_back(like(a));
    const std::vector<ir::ValueId> gradients = builder_.node("rms_norm_grad", operands, attrs);
    values_.push_back(gradients[1]);
    return operands.size() == 5 ? gradients[0] : summed(gradients[0]);
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
  RandomParts parts_;
  uint64_t at_ = 0;
  ir::Graph graph_;
  ops::Builder builder_;
  std::vector<ir::ValueId> values_, states_;
};

inline ir::Graph random_graph(uint64_t seed, int nodes, const RandomParts& parts = {}) {
  return RandomGraph(seed, nodes, parts).take();
}

/// With every node as a block, whose results are kept: a pass that looks at what blocks keep looks at all values.
inline ir::Graph in_blocks(ir::Graph graph) {
  for (uint32_t n = 0; n < graph.nodes().size(); ++n) {
    ir::Node& node = graph.node(ir::NodeId{n});
    if (node.op == ir::kInputOp) continue;
    node.scope = "block" + std::to_string(n) + ".A";
    node.role = ir::Role::activation;
  }
  return graph;
}

}  // namespace megacpp::testing_support
