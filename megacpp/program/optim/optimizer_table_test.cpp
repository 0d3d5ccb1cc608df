// SPDX-License-Identifier: Apache-2.0
// Every optimizer's record is whole, and its update equals the formula written out here, number by number.
#include "megacpp/program/optim/optimizer_def.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/evaluator.h"
#include "megacpp/program/ops/verify.h"
#include "megacpp/program/optim/parameter_groups.h"
#include "megacpp/program/optim/update.h"
#include "tests/support/tensors.h"
#include "tests/support/update_parameters.h"

namespace megacpp::optim {
namespace {

using blocks::Parameter;
using ops::Rounding;
using ops::Tensor;
using Tensors = std::map<std::string, Tensor>;

const std::vector<Parameter> kParameters = testing_support::update_parameters();

using Numbers = std::vector<double>;

// One parameter: its clipped gradient, and its state, which the formula replaces.
struct Step {
  const Optimizer& settings;
  const Parameter& parameter;
  double step;
  const Numbers& gradient;
  std::vector<Numbers>& state;
};
using Reference = Numbers (*)(const Step&);  // the direction

Numbers adamw(const Step& s) {
  const Optimizer& o = s.settings;
  Numbers direction;
  for (size_t i = 0; i < s.gradient.size(); ++i) {
    const double g = s.gradient[i];
    const double m = s.state[0][i] = o.beta1 * s.state[0][i] + (1 - o.beta1) * g;
    const double v = s.state[1][i] = o.beta2 * s.state[1][i] + (1 - o.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(o.beta1, s.step)), v_hat = v / (1 - std::pow(o.beta2, s.step));
    direction.push_back(m_hat / (std::sqrt(v_hat) + o.eps));
  }
  return direction;
}

Numbers sgd(const Step& s) {
  for (size_t i = 0; i < s.gradient.size(); ++i) s.state[0][i] = s.settings.momentum * s.state[0][i] + s.gradient[i];
  return s.state[0];
}

// Plain matrices, row by row, as the published program treats them: transposed where they are tall.
struct Matrix {
  size_t rows, columns;
  Numbers data;

  double& at(size_t r, size_t c) { return data[r * columns + c]; }
  double at(size_t r, size_t c) const { return data[r * columns + c]; }
};

Matrix transposed(const Matrix& x) {
  Matrix y{x.columns, x.rows, Numbers(x.data.size())};
  for (size_t r = 0; r < x.rows; ++r)
    for (size_t c = 0; c < x.columns; ++c) y.at(c, r) = x.at(r, c);
  return y;
}

Matrix product(const Matrix& x, const Matrix& y) {
  Matrix z{x.rows, y.columns, Numbers(x.rows * y.columns, 0.0)};
  for (size_t r = 0; r < z.rows; ++r)
    for (size_t c = 0; c < z.columns; ++c)
      for (size_t k = 0; k < x.columns; ++k) z.at(r, c) += x.at(r, k) * y.at(k, c);
  return z;
}

Matrix newton_schulz(Matrix x, int64_t iterations) {
  if (x.rows > x.columns) return transposed(newton_schulz(transposed(x), iterations));
  double sum = 0;
  for (const double element : x.data) sum += element * element;
  for (double& element : x.data) element /= std::sqrt(sum);
  for (int64_t i = 0; i < iterations; ++i) {
    Matrix a = product(x, transposed(x));
    const Matrix aa = product(a, a);
    for (size_t k = 0; k < a.data.size(); ++k) a.data[k] = -4.7750 * a.data[k] + 2.0315 * aa.data[k];
    const Matrix ax = product(a, x);
    for (size_t k = 0; k < x.data.size(); ++k) x.data[k] = 3.4445 * x.data[k] + ax.data[k];
  }
  return x;
}

double muon_scale(const Muon& muon, double in, double out) {
  return muon.scale == MuonScale::original ? std::sqrt(std::max(1.0, out / in)) : 0.2 * std::sqrt(std::max(in, out));
}

Numbers muon(const Step& s) {
  if (s.parameter.kind != blocks::ParameterKind::matrix) return adamw(s);
  const Muon& o = s.settings.muon;
  Numbers ahead;
  for (size_t i = 0; i < s.gradient.size(); ++i) {
    const double m = s.state[0][i] = o.momentum * s.state[0][i] + (1 - o.momentum) * s.gradient[i];
    ahead.push_back(o.nesterov ? (1 - o.momentum) * s.gradient[i] + o.momentum * m : m);
  }
  const ir::Shape& shape = s.parameter.shape;
  const auto in = static_cast<size_t>(shape[shape.size() - 2]), out = static_cast<size_t>(shape.back());
  const double scale = muon_scale(o, static_cast<double>(in), static_cast<double>(out));
  Numbers direction;
  for (size_t first = 0; first < ahead.size(); first += in * out) {
    const auto begin = ahead.begin() + static_cast<int64_t>(first);
    const Matrix x = newton_schulz({in, out, Numbers(begin, begin + static_cast<int64_t>(in * out))}, o.iterations);
    for (const double element : x.data) direction.push_back(scale * element);
  }
  return direction;
}

const std::map<std::string_view, Reference> kReferences = {{"adamw", adamw}, {"muon", muon}, {"sgd", sgd}};

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
  for (const Parameter& parameter : kParameters) {
    if (!parameter.trainable) continue;
    const std::vector<StateTensor> tensors =
        state_of(optimizer, parameter, ir::Sharding::replicated(parameter.shape.size()));
    std::vector<Numbers> state;
    for (const StateTensor& tensor : tensors) state.push_back(in.at(tensor.name).data);
    Numbers gradient = in.at(gradient_name(parameter.name)).data;
    for (double& element : gradient) element *= scale;
    const Numbers direction = kReferences.at(optimizer.name)(
        {.settings = settings, .parameter = parameter, .step = step, .gradient = gradient, .state = state});
    for (size_t i = 0; i < gradient.size(); ++i) {
      const double w = in.at(parameter.name).data[i];
      const double decay = is_decayed(settings, parameter) ? settings.weight_decay * w : 0.0;
      EXPECT_NEAR(out.at(parameter.name).data[i], w - lr * (direction[i] + decay), 1e-12)
          << optimizer.name << " " << parameter.name;
      for (size_t s = 0; s < tensors.size(); ++s) EXPECT_NEAR(out.at(tensors[s].name).data[i], state[s][i], 1e-12);
      EXPECT_EQ(out.at(gradient_name(parameter.name)).data[i], 0.0);
    }
  }
}

TEST(OptimizerTableTest, EveryRecordIsWhole) {
  std::map<std::string_view, std::string_view> prefixes = {{"grad.", "gradients"}};  // with what they name
  EXPECT_EQ(all_optimizers()[0].name, Optimizer{}.name) << "the default stands first";
  for (const OptimizerDef& optimizer : all_optimizers()) {
    EXPECT_FALSE(optimizer.name.empty() || optimizer.title.empty() || optimizer.doc.empty()) << optimizer.name;
    EXPECT_NE(optimizer.direction, nullptr) << optimizer.name;
    EXPECT_TRUE(kReferences.contains(optimizer.name)) << optimizer.name << " has no reference here";
    for (const StateDef& state : optimizer.state) {
      EXPECT_TRUE(state.prefix.ends_with(".") && !state.doc.empty()) << optimizer.name << ": " << state.prefix;
      EXPECT_EQ(prefixes.emplace(state.prefix, state.doc).first->second, state.doc)
          << state.prefix << " names two kinds of state";
    }
    if (optimizer.matrices) {
      EXPECT_FALSE(optimizer.matrices->name.empty()) << optimizer.name;
      EXPECT_TRUE(optimizer.matrices->applies != nullptr && optimizer.matrices->map != nullptr) << optimizer.name;
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
    EXPECT_EQ(error.problem().wanted, "one of adamw, muon, sgd");
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

TEST(OptimizerTableTest, MuonFollowsItsFormulaWithEverySetting) {
  const OptimizerDef& optimizer = optimizer_def("muon");
  for (const Muon& muon :
       {Muon{.momentum = 0.5}, Muon{.nesterov = false}, Muon{.iterations = 2}, Muon{.scale = MuonScale::original}}) {
    const Optimizer settings{.name = "muon", .muon = muon, .no_decay = {"matrix"}};
    const ir::Graph graph = build_update(optimizer, settings, {.parameters = kParameters});
    const Tensors in = inputs_for(graph, 3);
    expect_updated(optimizer, settings, in, ops::evaluate(graph, in, Rounding::none));
  }
}

// The same in bf16: near, and equal only where nothing is rounded.
TEST(OptimizerTableTest, MuonInHalfPrecisionIsNearItself) {
  const OptimizerDef& optimizer = optimizer_def("muon");
  const auto moved = [&optimizer](ir::DType precision, const Tensors& in) {
    const Optimizer settings{.name = "muon", .muon = {.precision = precision}, .clip = 0};
    const ir::Graph graph = build_update(optimizer, settings, {.parameters = kParameters});
    ops::verify(graph, ops::Form::built);
    Numbers moved = ops::evaluate(graph, in, Rounding::to_dtype).at("block00.A.wq").data;
    for (size_t i = 0; i < moved.size(); ++i) moved[i] -= in.at("block00.A.wq").data[i];
    return moved;
  };
  const Tensors in = inputs_for(build_update(optimizer, {.name = "muon"}, {.parameters = kParameters}), 1);
  const Numbers half = moved(ir::DType::bf16, in), single = moved(ir::DType::f32, in);
  EXPECT_NE(half, single);
  for (size_t i = 0; i < half.size(); ++i) EXPECT_NEAR(half[i], single[i], 0.05 * 0.01 * 0.45) << i;
}

TEST(OptimizerTableTest, MatricesOfZerosStayZeros) {
  const OptimizerDef& optimizer = optimizer_def("muon");
  const ir::Graph graph = build_update(optimizer, {.name = "muon"}, {.parameters = kParameters});
  Tensors in = inputs_for(graph, 1);
  for (const char* name : {"block00.A.wq", "grad.block00.A.wq", "muon_m.block00.A.wq"})
    for (double& element : in.at(name).data) element = 0;
  const Tensors out = ops::evaluate(graph, in, Rounding::none);
  for (const double element : out.at("block00.A.wq").data) EXPECT_EQ(element, 0);
}

TEST(OptimizerTableTest, WholeMatricesKeepTheSplitOfWhatCountsThem) {
  const ir::Sharding update{.dims = {{0}, {1}, {2}}};
  const Parameter& experts = kParameters[5];
  EXPECT_EQ(matrix_sharding(optimizer_def("muon"), experts, update), (ir::Sharding{.dims = {{0}, {}, {}}}));
  EXPECT_EQ(matrix_sharding(optimizer_def("adamw"), experts, update), update);
  const ir::Sharding rows{.dims = {{0}, {}}};
  EXPECT_EQ(matrix_sharding(optimizer_def("muon"), kParameters[0], rows), rows) << "an embedding takes AdamW";
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
