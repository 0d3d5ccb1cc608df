// SPDX-License-Identifier: Apache-2.0
// A random graph of one chip turned into a program of two chips: after some nodes a collective, through which all later
// readers look. Shapes stay what they are.
#pragma once

#include <string>
#include <vector>

#include "megacpp/core/base/philox.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/schedule/rewrite.h"
#include "tests/support/random_graph.h"

namespace megacpp::testing_support {

class RandomCollectives {
 public:
  RandomCollectives(const ir::Graph& graph, uint64_t seed) : graph_(graph), random_(seed, "chips"), rewriter_(graph) {}

  ir::Graph run() {
    for (const ir::Node& node : graph_.nodes()) {
      rewriter_.copy(node);
      if (node.op == ir::kInputOp || graph_.type(node.results[0]).dtype != ir::DType::f32 || draw(3) == 0) continue;
      rewriter_.set(node.results[0], exchanged(rewriter_.map(node.results[0])));
    }
    return rewriter_.finish();
  }

 private:
  uint64_t draw(uint64_t below) { return random_.word(at_++) % below; }

  ir::ValueId exchanged(ir::ValueId x) {
    ops::Builder b(rewriter_.graph());
    b.set_scope("block0" + std::to_string(draw(3)));
    const ir::Attrs group = {{"axes", std::string("x")}, {"parts", int64_t{2}}};
    const auto with = [&group](std::string name, ir::Attr value) {
      ir::Attrs attrs = group;
      attrs.set(std::move(name), std::move(value));
      return attrs;
    };
    const ir::Shape shape = b.shape(x);
    switch (draw(shape.empty() ? 3 : 5)) {
      case 0:
        return b.one("all_reduce", {x}, with("kind", std::string("max")));
      case 1:
        return b.tanh(b.one("all_reduce", {x}, with("kind", std::string("sum"))));
      case 2:
        return b.one("permute", {x}, with("shift", int64_t{1}));
      case 3:
        return b.slice(b.one("all_gather", {x}, with("dims", std::vector<int64_t>{0})), 0, shape[0], shape[0]);
      default:
        return b.tanh(b.one("reduce_scatter", {b.concatenate({x, x}, 0)}, with("dims", std::vector<int64_t>{0})));
    }
  }

  const ir::Graph& graph_;
  base::Philox random_;
  uint64_t at_ = 0;
  schedule::Rewriter rewriter_;
};

inline ir::Graph random_chip_program(uint64_t seed, int nodes) {
  return RandomCollectives(random_graph(seed, nodes), seed).run();
}

}  // namespace megacpp::testing_support
