// SPDX-License-Identifier: Apache-2.0
// What every update has in common, on the default optimizer.
#include "megacpp/program/optim/update.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
#include "tests/support/tensors.h"
#include "tests/support/update_parameters.h"

namespace megacpp::optim {
namespace {

using ops::Rounding;
using ops::Tensor;
using Tensors = std::map<std::string, Tensor>;

ir::Graph default_update(std::vector<BiasBalance> balances = {}) {
  return build_update(all_optimizers()[0], {},
                      {.parameters = testing_support::update_parameters(), .balances = std::move(balances)});
}

TEST(UpdateTest, EveryStateIsDonatedToItsSuccessor) {
  const ir::Graph graph = default_update();
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = graph.node(id).attrs.text("name");
    if (name == "lr" || name == "step") continue;
    EXPECT_TRUE(std::any_of(graph.outputs().begin(), graph.outputs().end(), [&](const ir::Output& output) {
      return output.donated == name && output.name == name;
    })) << name;
  }
}

TEST(UpdateTest, GradientsThatTheNextStepWritesAnewAreLeftAsTheyAre) {
  const UpdateTargets targets{.parameters = testing_support::update_parameters(), .zeroes_gradients = false};
  const ir::Graph graph = build_update(all_optimizers()[0], {}, targets);
  for (const ir::Output& output : graph.outputs()) EXPECT_FALSE(output.name.starts_with("grad.")) << output.name;
}

TEST(UpdateTest, StateBelongsToTheBlockOfItsParameter) {
  const ir::Graph graph = default_update();
  EXPECT_EQ(graph.producer(*graph.find_input("adam_m.block00.A.norm.weight")).scope, "block00.A");
  EXPECT_EQ(graph.producer(*graph.find_input("adam_m.embed.weight")).scope, "embed");
}

TEST(UpdateTest, BiasMovesTowardsExpertsRequestedTooSeldomAndCountsRestart) {
  const BiasBalance balance{
      .bias = "block01.E.expert_bias", .counts = "expert_count.block01", .experts = 4, .rate = 0.25};
  const ir::Graph graph = default_update({balance});
  ops::verify(graph, ops::Form::built);
  Tensors in = testing_support::random_inputs(graph, "update");
  in[balance.bias].data = {0, 0, 0, 1};
  in[balance.counts].data = {10, 2, 6, 6};
  const Tensors out = ops::evaluate(graph, in, Rounding::none);
  EXPECT_EQ(out.at(balance.bias).data, (std::vector<double>{-0.25, 0.25, 0, 1}));
  EXPECT_EQ(out.at(balance.counts).data, std::vector<double>(4, 0.0));
}

}  // namespace
}  // namespace megacpp::optim
