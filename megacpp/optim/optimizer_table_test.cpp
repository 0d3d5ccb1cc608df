// SPDX-License-Identifier: Apache-2.0
// Every optimizer's record is whole, and its update equals the formula written out here, number by number.
#include "megacpp/optim/optimizer_def.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "megacpp/base/error.h"
#include "megacpp/ops/builder.h"
#include "megacpp/ops/evaluator.h"
#include "megacpp/ops/verify.h"
#include "megacpp/optim/update.h"
#include "tests/support/tensors.h"
#include "tests/support/update_parameters.h"

namespace megacpp::optim {
namespace {

using blocks::Parameter;
using ops::Rounding;
using ops::Tensor;
using Tensors = std::map<std::string, Tensor>;

const std::vector<Parameter> kParameters = testing_support::update_parameters();

// One weight: what it was, its clipped gradient, its state, which the formula replaces.
struct Element {
  const Optimizer& settings;
  double gradient, step;
  std::vector<double>& state;
};
using Reference = double (*)(const Element&);  // the direction

double adamw(const Element& e) {
  const Optimizer& o = e.settings;
  const double m = e.state[0] = o.beta1 * e.state[0] + (1 - o.beta1) * e.gradient;
  const double v = e.state[1] = o.beta2 * e.state[1] + (1 - o.beta2) * e.gradient * e.gradient;
  const double m_hat = m / (1 - std::pow(o.beta1, e.step)), v_hat = v / (1 - std::pow(o.beta2, e.step));
  return m_hat / (std::sqrt(v_hat) + o.eps);
}

double sgd(const Element& e) { return e.state[0] = e.settings.momentum * e.state[0] + e.gradient; }

const std::map<std::string_view, Reference> kReferences = {{"adamw", adamw}, {"sgd", sgd}};

Tensors inputs_for(const ir::Graph& graph, double step) {
  Tensors inputs = testing_support::random_inputs(graph, "optimizer");
  for (auto& [name, tensor] : inputs)
    if (name.starts_with("adam_v."))
      for (double& element : tensor.data) element = std::fabs(element);
  inputs["lr"][0] = 0.01;
  inputs["step"][0] = step;
  return inputs;
}

double clip_scale(const Optimizer& settings, const Tensors& inputs) {
  double sum = 0;
  for (const auto& [name, tensor] : inputs)
    if (name.starts_with("grad."))
      for (const double element : tensor.data) sum += element * element;
  return settings.clip == 0 ? 1.0 : std::min(1.0, settings.clip / (std::sqrt(sum) + 1e-6));
}

void expect_updated(const OptimizerDef& optimizer, const Optimizer& settings, const Tensors& in, const Tensors& out) {
  const double scale = clip_scale(settings, in), step = in.at("step")[0], lr = in.at("lr")[0];
  for (const Parameter& parameter : {kParameters[0], kParameters[1]}) {
    const std::vector<StateTensor> tensors =
        state_of(optimizer, parameter, ir::Sharding::replicated(parameter.shape.size()));
    for (int64_t i = 0; i < in.at(parameter.name).elements(); ++i) {
      const double w = in.at(parameter.name)[i];
      std::vector<double> state;
      for (const StateTensor& tensor : tensors) state.push_back(in.at(tensor.name)[i]);
      const double gradient = scale * in.at(gradient_name(parameter.name))[i];
      const double direction =
          kReferences.at(optimizer.name)({.settings = settings, .gradient = gradient, .step = step, .state = state});
      const double decay = parameter.decayed ? settings.weight_decay * w : 0.0;
      EXPECT_NEAR(out.at(parameter.name)[i], w - lr * (direction + decay), 1e-12) << optimizer.name;
      for (size_t s = 0; s < tensors.size(); ++s) EXPECT_NEAR(out.at(tensors[s].name)[i], state[s], 1e-12);
      EXPECT_EQ(out.at(gradient_name(parameter.name))[i], 0.0);
    }
  }
}

TEST(OptimizerTableTest, EveryRecordIsWhole) {
  std::set<std::string_view> prefixes = {"grad."};
  EXPECT_EQ(all_optimizers()[0].name, Optimizer{}.name) << "the default stands first";
  for (const OptimizerDef& optimizer : all_optimizers()) {
    EXPECT_FALSE(optimizer.name.empty() || optimizer.title.empty() || optimizer.doc.empty()) << optimizer.name;
    EXPECT_NE(optimizer.direction, nullptr) << optimizer.name;
    EXPECT_TRUE(kReferences.contains(optimizer.name)) << optimizer.name << " has no reference here";
    for (const StateDef& state : optimizer.state) {
      EXPECT_TRUE(state.prefix.ends_with(".") && !state.doc.empty()) << optimizer.name << ": " << state.prefix;
      EXPECT_TRUE(prefixes.insert(state.prefix).second) << state.prefix << " names two kinds of state";
    }
    EXPECT_EQ(&optimizer_def(optimizer.name), &optimizer);
  }
}

TEST(OptimizerTableTest, AnUnknownNameIsAnErrorThatNamesThoseThereAre) {
  try {
    optimizer_def("lion");
    FAIL();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1003);
    EXPECT_EQ(error.problem().got, "'lion'");
    EXPECT_EQ(error.problem().wanted, "one of adamw, sgd");
  }
}

TEST(OptimizerTableTest, EveryUpdateEqualsItsFormulaWithAndWithoutClipping) {
  for (const OptimizerDef& optimizer : all_optimizers())
    for (const double clip : {0.0, 0.5, 1000.0})
      for (const double step : {1.0, 7.0}) {
        const Optimizer settings{.name = std::string(optimizer.name), .clip = clip};
        const ir::Graph graph = build_update(optimizer, settings, {.parameters = kParameters});
        ops::verify(graph, ops::Form::built);
        const Tensors in = inputs_for(graph, step);
        expect_updated(optimizer, settings, in, ops::evaluate(graph, in, Rounding::none));
        EXPECT_FALSE(graph.find_input("block01.E.expert_bias").has_value()) << "is not trained";
      }
}

// The sum of each row of a matrix, in bf16; vectors keep nothing.
OptimizerDef row_sums() {
  return {.name = "row_sums",
          .title = "row sums",
          .doc = "a test's",
          .state = {{.prefix = "row_sum.",
                     .doc = "sum of gradients of a row",
                     .dtype = ir::DType::bf16,
                     .applies = [](const Parameter& parameter) { return parameter.shape.size() == 2; },
                     .shape = [](const Parameter& parameter) { return ir::Shape{parameter.shape[0]}; },
                     .sharding = [](const Parameter&,
                                    const ir::Sharding& update) { return ir::Sharding{.dims = {update.dims[0]}}; }}},
          .keys = {},
          .direction = [](const DirectionInputs& in) {
            if (in.state.empty()) return Direction{.value = in.gradient, .state = {}};
            const ir::ValueId sums = in.builder.reduce_sum(in.gradient, {1});
            return Direction{.value = in.gradient, .state = {in.builder.convert(sums, ir::DType::bf16)}};
          }};
}

TEST(OptimizerTableTest, StateMayHaveAShapeDtypeAndShardingOfItsOwnAndBelongToSomeParameters) {
  const OptimizerDef optimizer = row_sums();
  const ir::Sharding update{.dims = {{0}, {}}};
  const std::vector<StateTensor> state = state_of(optimizer, kParameters[0], update);
  ASSERT_EQ(state.size(), 1u);
  EXPECT_EQ(state[0].name, "row_sum.embed.weight");
  EXPECT_EQ(ir::to_string(state[0].type), "bf16[3]");
  EXPECT_EQ(state[0].sharding, (ir::Sharding{.dims = {{0}}}));
  EXPECT_TRUE(state_of(optimizer, kParameters[1], ir::Sharding::replicated(1)).empty());
  EXPECT_TRUE(state_of(optimizer, kParameters[2], ir::Sharding::replicated(1)).empty()) << "is not trained";

  const ir::Graph graph = build_update(optimizer, {.clip = 0}, {.parameters = kParameters});
  ops::verify(graph, ops::Form::built);
  const Tensors in = inputs_for(graph, 1), out = ops::evaluate(graph, in, Rounding::none);
  const Tensor& gradient = in.at("grad.embed.weight");
  for (int64_t row = 0; row < 3; ++row)
    EXPECT_NEAR(out.at("row_sum.embed.weight")[row], gradient[2 * row] + gradient[2 * row + 1], 1e-12);
}

}  // namespace
}  // namespace megacpp::optim
