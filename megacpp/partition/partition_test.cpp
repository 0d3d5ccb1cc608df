// SPDX-License-Identifier: Apache-2.0
// Small programs partitioned: which collectives they take, what they compute on all chips of a mesh, and which are
// refused.
#include "megacpp/partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "megacpp/ir/text.h"
#include "megacpp/ops/builder.h"
#include "megacpp/ops/spmd_evaluator.h"
#include "tests/support/errors.h"
#include "tests/support/tensors.h"

namespace megacpp::partition {
namespace {

using ir::ValueId;
using ops::Tensor;

const ir::Mesh kSplitModelMesh({{"data", 2}, {"model.0", 2}, {"model.1", 2}});
constexpr int64_t kRows = 8, kColumns = 4, kBytes = 4 * kRows * kColumns;

// Inputs of one shape that lie as asked, one program of them, outputs by name.
class Program {
 public:
  Program() : builder_(graph_) {}

  ValueId input(const std::string& name, const std::string& sharding) {
    return builder_.input(name, {ir::DType::f32, {kRows, kColumns}}, ir::Role::batch, sharding);
  }
  ValueId reshard(ValueId x, const std::string& to) {
    return builder_.one("reshard", {x}, {{"from", std::string()}, {"to", to}});
  }
  void output(const std::string& name, ValueId value) { graph_.add_output({.name = name, .value = value}); }
  ops::Builder& operator*() { return builder_; }
  const ir::Graph& graph() const { return graph_; }

 private:
  ir::Graph graph_{"sums"};
  ops::Builder builder_;
};

// The chip's program, after it has been compared with the whole one on all chips.
ir::Graph checked(const ir::Graph& whole) {
  const Partitioned parts = partition(whole, kSplitModelMesh);
  const std::map<std::string, Tensor> inputs = testing_support::random_inputs(whole, "partition");
  std::vector<std::map<std::string, Tensor>> chip_inputs(static_cast<size_t>(kSplitModelMesh.chips()));
  for (const auto& [name, tensor] : inputs)
    for (int64_t chip = 0; chip < kSplitModelMesh.chips(); ++chip)
      chip_inputs[static_cast<size_t>(chip)].emplace(
          name, ops::shard(tensor, parts.inputs.at(name).sharding, kSplitModelMesh, chip));
  const auto wanted = ops::evaluate(whole, inputs, ops::Rounding::none);
  const auto got = ops::evaluate_spmd(parts.graph, kSplitModelMesh, chip_inputs, ops::Rounding::none);
  for (const auto& [name, tensor] : wanted) {
    std::vector<Tensor> per_chip;
    for (const auto& chip : got) per_chip.push_back(chip.at(name));
    const Tensor joined = ops::unshard(per_chip, tensor.type.shape, parts.outputs.at(name).sharding, kSplitModelMesh);
    for (int64_t e = 0; e < tensor.elements(); ++e)
      EXPECT_NEAR(joined[e], tensor[e], 1e-9) << name << "[" << e << "]\n" << ir::print(parts.graph);
  }
  return parts.graph;
}

// "all_reduce model.0+model.1" for each collective, in order.
std::vector<std::string> collectives(const ir::Graph& graph) {
  std::vector<std::string> found;
  for (const ir::Node& node : graph.nodes())
    if (node.role == ir::Role::collective) found.push_back(node.op + " " + node.attrs.text("axes"));
  return found;
}

using Found = std::vector<std::string>;

TEST(PartialSumsTest, SumsOverMoreAndFewerAxesAreReducedOnceTogether) {
  Program p;
  const ValueId q = p.input("q", "-,- ~ model.0+model.1"), k = p.input("k", "-,- ~ model.0");
  const ValueId v = p.input("v", "-,- ~ model.0"), more = p.input("more", "-,-");
  p.output("y", (*p).exp((*p).add((*p).add((*p).add(q, k), v), more)));
  EXPECT_EQ(collectives(checked(p.graph())), (Found{"all_reduce model.0+model.1"}));
}

TEST(PartialSumsTest, SumsOverDifferentAxesAreReducedOnceTogether) {
  Program p;
  p.output("y", (*p).exp((*p).sub(p.input("a", "-,- ~ data"), p.input("b", "-,- ~ model.1"))));
  EXPECT_EQ(collectives(checked(p.graph())), (Found{"all_reduce data+model.1"}));
}

TEST(PartialSumsTest, AWholeStreamStaysWholeWhereOthersReadIt) {
  Program p;
  const ValueId stream = (*p).add(p.input("stream", "-,-"), p.input("update", "-,- ~ data"));
  const ValueId again = (*p).add(stream, p.input("second", "-,- ~ data"));
  p.output("y", (*p).mul((*p).exp(stream), (*p).exp(again)));
  const ir::Graph graph = checked(p.graph());
  EXPECT_EQ(collectives(graph), (Found{"all_reduce data", "all_reduce data"}));
  for (const ir::Node& node : graph.nodes()) EXPECT_NE(node.op, "select") << ir::print(graph);
}

TEST(PartialSumsTest, ZerosArePartOfAnySum) {
  Program p;
  const ValueId partial = p.input("partial", "-,- ~ data");
  p.output("y", (*p).exp((*p).add((*p).constant_like(0.0, partial), partial)));
  const ir::Graph graph = checked(p.graph());
  EXPECT_EQ(collectives(graph), (Found{"all_reduce data"}));
  for (const ir::Node& node : graph.nodes()) EXPECT_NE(node.op, "select") << ir::print(graph);
}

TEST(PartialSumsTest, ASumThatWillBeSplitIsScattered) {
  Program p;
  const ValueId sum = (*p).add(p.input("whole", "-,-"), p.input("partial", "-,- ~ model.0"));
  p.output("y", p.reshard((*p).neg((*p).add(sum, p.input("third", "-,-"))), "model.0,-"));
  EXPECT_EQ(collectives(checked(p.graph())), (Found{"reduce_scatter model.0"}));
}

TEST(PartialSumsTest, ASumThatShrinksIsReducedWhenItIsSmall) {
  Program p;
  const ValueId difference = (*p).sub(p.input("whole", "-,-"), p.input("partial", "-,- ~ model.0"));
  p.output("y", (*p).exp((*p).sum_all((*p).scale(difference, 0.5))));
  const ir::Graph graph = checked(p.graph());
  ASSERT_EQ(collectives(graph), (Found{"all_reduce model.0"}));
  for (const ir::Node& node : graph.nodes())
    if (node.role == ir::Role::collective) {
      EXPECT_EQ(graph.type(node.results[0]).elements(), 1);
    }
}

TEST(PartialSumsTest, AnOperandSplitOverTheSummedAxisIsGatheredFirst) {
  Program p;
  const ValueId partial = p.input("partial", "data,- ~ model.0"), split = p.input("split", "model.0,-");
  p.output("y", (*p).add((*p).add(partial, split), p.input("third", "data,- ~ model.0")));
  checked(p.graph());
}

TEST(ReshardTest, OfSeveralInARowTheLastCounts) {
  Program p;
  const ValueId partial = p.input("partial", "-,- ~ data+model.0");
  p.output("y", p.reshard(p.reshard(p.reshard(partial, "model.0,-"), "-,-"), "model.0+data,-"));
  EXPECT_EQ(collectives(checked(p.graph())), (Found{"reduce_scatter model.0+data"}));
}

TEST(ReshardTest, WhatIsKeptForTheBackwardPassIsAnActivation) {
  for (const auto role : {ir::Role::temporary, ir::Role::activation})
    for (const bool in_two_steps : {false, true}) {
      Program p;
      ValueId gathered = p.reshard(p.input("split", "data+model.0,-"), in_two_steps ? "data,-" : "-,-");
      if (in_two_steps) gathered = p.reshard(gathered, "-,-");
      p.output("y", (*p).exp(gathered));
      ir::Graph graph = p.graph();
      graph.node(graph.value(gathered).producer).role = role;
      const ir::Graph chip = checked(graph);
      const auto gather =
          std::ranges::find_if(chip.nodes(), [](const ir::Node& node) { return node.op == "all_gather"; });
      ASSERT_NE(gather, chip.nodes().end());
      EXPECT_EQ(gather->role, role == ir::Role::activation ? role : ir::Role::collective) << in_two_steps;
    }
}

TEST(ReshardTest, OneThatOthersReadIsMade) {
  Program p;
  const ValueId half = p.reshard(p.input("partial", "-,- ~ data+model.0"), "model.0,-");
  p.output("y", p.reshard(half, "model.0+data,-"));
  p.output("z", (*p).exp(half));
  EXPECT_EQ(collectives(checked(p.graph())), (Found{"reduce_scatter model.0", "all_reduce data"}));
}

// ---- Unasked copies ----

// The operands are split against each other: the first decides, the second is gathered over model and sliced over data.
TEST(UnaskedCopyTest, IsRefusedAboveTheLimitWhereAnotherAxisStillSplitsIt) {
  Program p;
  (*p).set_scope("block00.A");
  const ValueId first = p.input("first", "data,-"), second = p.input("second", "model.0+model.1,-");
  p.output("y", (*p).add(first, second));
  const auto limited = [&](int64_t bytes) {
    return partition(p.graph(), kSplitModelMesh, {}, {.max_replicated_bytes = bytes});
  };
  EXPECT_NO_THROW(limited(kBytes / 2));
  const base::Problem problem = testing_support::problem_of(base::Code::E1408, [&] { limited(kBytes / 2 - 1); });
  EXPECT_EQ(problem.where, "second @block00.A, read by add @block00.A");
}

TEST(UnaskedCopyTest, WhatIsAskedForPasses) {
  Program p;
  p.output("y", (*p).exp(p.reshard(p.input("x", "data+model.0,-"), "-,-")));
  EXPECT_NO_THROW(partition(p.graph(), kSplitModelMesh, {}, {.max_replicated_bytes = 0}));
}

}  // namespace
}  // namespace megacpp::partition
