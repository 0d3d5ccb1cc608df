// SPDX-License-Identifier: Apache-2.0
// The real-gated linear recurrent unit of Griffin, from gate pre-activations:
//   i = sigmoid(input_gate), r = sigmoid(recurrence_gate), log a = -8 r softplus(p), m = sqrt(1 - a^2)
//   h_t = a_t h_{t-1} + m_t i_t x_t, and at position 0: a = 0, m = 1.
// The slope of the square root is capped at 1000, as in the published implementation: without the cap a gate that
// saturates (a = 1) makes the gradient infinite.
#include <algorithm>
#include <cmath>

#include "megacpp/ops/builder.h"
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {
namespace {

constexpr double kDecayScale = 8.0;
constexpr double kSqrtSlopeFloor = 1e-6;  // slope of sqrt(v) is 1 / sqrt(max(4 v, floor))

double sigmoid(double v) { return 1.0 / (1.0 + std::exp(-v)); }
double softplus(double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); }

void require_inputs(std::string_view op, const Types& operands) {
  require_float_rank(op, "x", operands[0], 3);
  require_float_shape(op, "input_gate", operands[1], operands[0].shape);
  require_float_shape(op, "recurrence_gate", operands[2], operands[0].shape);
  require_float_shape(op, "p", operands[3], {operands[0].dim(2)});
}

Types infer_forward(const Types& operands, const ir::Attrs&) {
  require_operand_count("rg_lru", operands, 4);
  require_inputs("rg_lru", operands);
  return {operands[0]};
}

Types infer_grad(const Types& operands, const ir::Attrs&) {
  require_operand_count("rg_lru_grad", operands, 6);
  require_inputs("rg_lru_grad", operands);
  require_float_shape("rg_lru_grad", "h", operands[4], operands[0].shape);
  require_float_shape("rg_lru_grad", "dh", operands[5], operands[0].shape);
  return {operands[0], operands[1], operands[2], operands[3]};
}

void forward_reference(std::span<const Tensor> in, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t batch = in[0].type.dim(0), seq = in[0].type.dim(1), channels = in[0].type.dim(2);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < channels; ++c) {
      double h = 0;
      for (int64_t t = 0; t < seq; ++t) {
        const int64_t i = (b * seq + t) * channels + c;
        const double log_a = -kDecayScale * sigmoid(in[2][i]) * softplus(in[3][c]);
        const double a = t == 0 ? 0.0 : std::exp(log_a);
        const double m = t == 0 ? 1.0 : std::sqrt(-std::expm1(2 * log_a));
        h = a * h + m * sigmoid(in[1][i]) * in[0][i];
        results[0][i] = h;
      }
    }
}

void grad_reference(std::span<const Tensor> in, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t batch = in[0].type.dim(0), seq = in[0].type.dim(1), channels = in[0].type.dim(2);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < channels; ++c) {
      double carry = 0;  // a_{t+1} times the cotangent of h_{t+1}
      for (int64_t t = seq - 1; t >= 0; --t) {
        const int64_t i = (b * seq + t) * channels + c;
        const double input = sigmoid(in[1][i]), r = sigmoid(in[2][i]), x = in[0][i];
        const double log_a = -kDecayScale * r * softplus(in[3][c]);
        const double a = std::exp(log_a), a_squared = std::exp(2 * log_a), remainder = -std::expm1(2 * log_a);
        const double m = t == 0 ? 1.0 : std::sqrt(remainder);
        const double g = in[5][i] + carry;
        carry = a * g;
        results[0][i] = g * m * input;
        results[1][i] = g * m * x * input * (1 - input);
        if (t == 0) continue;
        const double slope = 1.0 / std::sqrt(std::max(4 * remainder, kSqrtSlopeFloor));
        const double dlog_a = g * in[4][i - channels] * a - g * input * x * slope * 2 * a_squared;
        results[2][i] = -kDecayScale * softplus(in[3][c]) * dlog_a * r * (1 - r);
        results[3][c] -= kDecayScale * r * dlog_a * sigmoid(in[3][c]);
      }
    }
}

// What both decompositions start from; all [b, s, c] in f32.
struct Gates {
  ValueId x, input, r, softplus_p;
  ValueId first;      // pred: position 0
  ValueId a;          // zero at position 0
  ValueId m;          // one at position 0
  ValueId remainder;  // 1 - a^2 as if there were no reset
};

// 1 - exp(-2 w) without cancellation for small w: 2 tanh(w) / (1 + tanh(w)).
ValueId one_minus_exp(Builder& b, ValueId w) {
  const ValueId t = b.tanh(w);
  const ValueId twice_t = b.scale(t, 2.0);
  const ValueId one_plus_t = b.offset(t, 1.0);
  return b.div(twice_t, one_plus_t);
}

Gates build_gates(Builder& b, const std::vector<ValueId>& operands) {
  constexpr auto kF32 = ir::DType::f32;
  const ir::Shape shape = b.shape(operands[0]);
  Gates g;
  g.x = b.convert(operands[0], kF32);
  g.input = b.logistic(b.convert(operands[1], kF32));
  g.r = b.logistic(b.convert(operands[2], kF32));
  g.softplus_p = b.broadcast(b.softplus(b.convert(operands[3], kF32)), shape, {2});
  const ValueId position = b.iota(shape, 1);
  g.first = b.compare(position, b.constant(0, shape, ir::DType::i32), "eq");
  const ValueId w = b.scale(b.mul(g.r, g.softplus_p), kDecayScale);
  g.remainder = one_minus_exp(b, w);
  const ValueId first_a = b.constant(0.0, shape);
  g.a = b.select(g.first, first_a, b.exp(b.neg(w)));
  const ValueId first_m = b.constant(1.0, shape);
  g.m = b.select(g.first, first_m, b.sqrt(g.remainder));
  return g;
}

std::vector<ValueId> decompose_forward(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs&) {
  const Gates g = build_gates(b, operands);
  const ValueId driven = b.mul(g.m, b.mul(g.input, g.x));
  const ValueId h = b.one("linear_recurrence", {g.a, driven}, {{"reverse", int64_t{0}}});
  return {b.convert(h, b.type(operands[0]).dtype)};
}

// v (1 - v): the slope of the logistic function from its value.
ValueId logistic_slope(Builder& b, ValueId v) { return b.mul(v, b.sub(b.constant_like(1.0, v), v)); }

std::vector<ValueId> decompose_grad(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs&) {
  constexpr auto kF32 = ir::DType::f32;
  const Gates g = build_gates(b, operands);
  const int64_t seq = b.type(g.x).dim(1);
  const ValueId h = b.convert(operands[4], kF32), dh = b.convert(operands[5], kF32);
  const ValueId next_a = b.slice(b.pad(g.a, 1, 0, 1), 1, 1, seq);
  const ValueId previous_h = b.slice(b.pad(h, 1, 1, 0), 1, 0, seq);
  const ValueId total = b.one("linear_recurrence", {next_a, dh}, {{"reverse", int64_t{1}}});
  const ValueId driven = b.mul(total, g.m);
  const ValueId dx = b.mul(driven, g.input);
  const ValueId driven_x = b.mul(driven, g.x);
  const ValueId dinput = b.mul(driven_x, logistic_slope(b, g.input));
  const ValueId four_remainders = b.scale(g.remainder, 4.0);
  const ValueId floor = b.constant_like(kSqrtSlopeFloor, g.remainder);
  const ValueId slope = b.rsqrt(b.max(four_remainders, floor));
  // a is zero at position 0, which clears both terms there as the reset demands.
  const ValueId through_a = b.mul(b.mul(total, previous_h), g.a);
  const ValueId dm = b.mul(b.mul(total, g.input), g.x);
  const ValueId m_slope = b.mul(b.scale(b.square(g.a), 2.0), slope);
  const ValueId through_m = b.mul(dm, m_slope);
  const ValueId dw = b.scale(b.sub(through_m, through_a), kDecayScale);
  const ValueId dr = b.mul(dw, g.softplus_p);
  const ValueId drecurrence = b.mul(dr, logistic_slope(b, g.r));
  const ValueId dsoftplus_p = b.reduce_sum(b.mul(dw, g.r), {0, 1});
  const ValueId dp = b.mul(dsoftplus_p, b.logistic(b.convert(operands[3], kF32)));
  std::vector<ValueId> results = {dx, dinput, drecurrence, dp};
  for (size_t i = 0; i < results.size(); ++i) results[i] = b.convert(results[i], b.type(operands[i]).dtype);
  return results;
}

Cotangents grad(const GradArgs& args) {
  std::vector<ValueId> operands = args.operands;
  operands.push_back(args.results[0]);
  operands.push_back(*args.cotangents[0]);
  const std::vector<ValueId> grads = args.builder.node("rg_lru_grad", operands);
  return {grads.begin(), grads.end()};
}

ir::TensorType f32(ir::Shape shape) { return {ir::DType::f32, std::move(shape)}; }

std::vector<Sample> make_samples(bool with_cotangent) {
  std::vector<Sample> samples;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, ir::Shape>>{
           {"even", {2, 8, 6}}, {"one_step", {3, 1, 5}}, {"odd_sizes", {1, 37, 67}}}) {
    Sample sample{.name = name, .operands = {f32(shape), f32(shape), f32(shape), f32({shape[2]})}, .attrs = {}};
    if (with_cotangent) sample.operands.insert(sample.operands.end(), {f32(shape), f32(shape)});
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

OpDef rg_lru_def() {
  OpDef def;
  def.name = "rg_lru";
  def.doc = "real-gated linear recurrent unit from gate pre-activations";
  def.infer = infer_forward;
  def.factors = [](const NodeView& view) { return factors_from(view, "b s c, b s c, b s c, c -> b s c", "s"); };
  def.grad = grad;
  def.cost = [](const NodeView& view) { return Cost{16.0 * static_cast<double>(view.results[0].elements())}; };
  def.reference = forward_reference;
  def.decompose = decompose_forward;
  def.samples = [] { return make_samples(false); };
  return def;
}

OpDef rg_lru_grad_def() {
  OpDef def;
  def.name = "rg_lru_grad";
  def.doc = "gradients of rg_lru from its operands, its result and the cotangent";
  def.infer = infer_grad;
  def.factors = [](const NodeView& view) {
    return factors_from(view, "b s c, b s c, b s c, c, b s c, b s c -> b s c, b s c, b s c, c", "s");
  };
  def.no_grad = "made by autodiff; second derivatives are not taken";
  def.cost = [](const NodeView& view) { return Cost{40.0 * static_cast<double>(view.results[0].elements())}; };
  def.reference = grad_reference;
  def.decompose = decompose_grad;
  def.samples = [] { return make_samples(true); };
  return def;
}

}  // namespace megacpp::ops
