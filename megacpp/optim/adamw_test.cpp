// SPDX-License-Identifier: Apache-2.0
// The update program against AdamW written out by hand.
#include "megacpp/optim/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "megacpp/ops/evaluator.h"
#include "megacpp/ops/verify.h"
#include "tests/support/tensors.h"

namespace megacpp::optim {
namespace {

using blocks::Init;
using blocks::Parameter;
using ops::Rounding;
using ops::Tensor;
using Tensors = std::map<std::string, Tensor>;

const std::vector<Parameter> kParameters = {{"embed.weight", {3, 2}, {}, Init::normal(1.0)},
                                            {"block00.A.norm.weight", {4}, {}, Init::ones(), false},
                                            {"block01.E.expert_bias", {4}, {}, Init::zeros(), false, false}};

Tensors inputs_for(const ir::Graph& graph, double step) {
  Tensors inputs = testing_support::random_inputs(graph, "adamw");
  for (auto& [name, tensor] : inputs)
    if (name.rfind("adam_v.", 0) == 0)
      for (double& element : tensor.data) element = std::fabs(element);
  inputs["lr"][0] = 0.01;
  inputs["step"][0] = step;
  return inputs;
}

double norm_of_gradients(const Tensors& inputs) {
  double sum = 0;
  for (const auto& [name, tensor] : inputs)
    if (name.rfind("grad.", 0) == 0)
      for (const double element : tensor.data) sum += element * element;
  return std::sqrt(sum);
}

void expect_adamw(const Optimizer& o, const Tensors& in, const Tensors& out, const Parameter& parameter, double scale) {
  const double step = in.at("step")[0], lr = in.at("lr")[0];
  for (int64_t i = 0; i < in.at(parameter.name).elements(); ++i) {
    const double g = scale * in.at(gradient_name(parameter.name))[i], w = in.at(parameter.name)[i];
    const double m = o.beta1 * in.at(first_moment_name(parameter.name))[i] + (1 - o.beta1) * g;
    const double v = o.beta2 * in.at(second_moment_name(parameter.name))[i] + (1 - o.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(o.beta1, step)), v_hat = v / (1 - std::pow(o.beta2, step));
    const double decay = parameter.decayed ? o.weight_decay * w : 0.0;
    EXPECT_NEAR(out.at(parameter.name)[i], w - lr * (m_hat / (std::sqrt(v_hat) + o.eps) + decay), 1e-12);
    EXPECT_NEAR(out.at(first_moment_name(parameter.name))[i], m, 1e-12);
    EXPECT_NEAR(out.at(second_moment_name(parameter.name))[i], v, 1e-12);
    EXPECT_EQ(out.at(gradient_name(parameter.name))[i], 0.0);
  }
}

TEST(AdamwTest, UpdateEqualsTheFormulaWithAndWithoutClipping) {
  for (const double clip : {0.0, 0.5, 1000.0}) {
    for (const double step : {1.0, 7.0}) {
      const Optimizer optimizer{.clip = clip};
      const ir::Graph graph = build_update(kParameters, {}, optimizer);
      ops::verify(graph, ops::Form::built);
      const Tensors in = inputs_for(graph, step), out = ops::evaluate(graph, in, Rounding::none);
      const double norm = norm_of_gradients(in);
      EXPECT_NEAR(out.at("grad_norm")[0], norm, 1e-12);
      const double scale = clip == 0.0 ? 1.0 : std::min(1.0, clip / (norm + 1e-6));
      expect_adamw(optimizer, in, out, kParameters[0], scale);
      expect_adamw(optimizer, in, out, kParameters[1], scale);
      EXPECT_FALSE(graph.find_input("block01.E.expert_bias").has_value()) << "is not trained";
    }
  }
}

TEST(AdamwTest, EveryStateIsDonatedToItsSuccessor) {
  const ir::Graph graph = build_update(kParameters, {}, {});
  for (const ir::NodeId id : graph.inputs()) {
    const std::string& name = graph.node(id).attrs.text("name");
    if (name == "lr" || name == "step") continue;
    EXPECT_TRUE(std::any_of(graph.outputs().begin(), graph.outputs().end(), [&](const ir::Output& output) {
      return output.donated == name && output.name == name;
    })) << name;
  }
}

TEST(AdamwTest, StateBelongsToTheBlockOfItsParameter) {
  const ir::Graph graph = build_update(kParameters, {}, {});
  EXPECT_EQ(graph.producer(*graph.find_input("adam_m.block00.A.norm.weight")).scope, "block00.A");
  EXPECT_EQ(graph.producer(*graph.find_input("adam_m.embed.weight")).scope, "embed");
}

TEST(AdamwTest, BiasMovesTowardsExpertsAskedTooSeldomAndCountsRestart) {
  const BiasBalance balance{
      .bias = "block01.E.expert_bias", .counts = "expert_count.block01", .experts = 4, .rate = 0.25};
  const ir::Graph graph = build_update(kParameters, {balance}, {});
  ops::verify(graph, ops::Form::built);
  Tensors in = inputs_for(graph, 1);
  in[balance.bias].data = {0, 0, 0, 1};
  in[balance.counts].data = {10, 2, 6, 6};
  const Tensors out = ops::evaluate(graph, in, Rounding::none);
  EXPECT_EQ(out.at(balance.bias).data, (std::vector<double>{-0.25, 0.25, 0, 1}));
  EXPECT_EQ(out.at(balance.counts).data, std::vector<double>(4, 0.0));
}

}  // namespace
}  // namespace megacpp::optim
