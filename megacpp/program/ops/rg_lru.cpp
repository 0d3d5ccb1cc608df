// SPDX-License-Identifier: Apache-2.0
// The real-gated linear recurrent unit of Griffin, from gate pre-activations:
//   i = sigmoid(input_gate), r = sigmoid(recurrence_gate), log a = -8 r softplus(p), m = sqrt(1 - a^2)
//   h_t = a_t h_{t-1} + m_t i_t x_t, and at position 0: a = 0, m = 1.
// x is [.., s, c]; the leading dimensions are independent sequences. A last operand, where present, says which
// positions are like position 0. Either `continues` f32[..]: 1 for sequences that are the later part of a longer one;
// they too start from h = 0, but their position 0 is like any other. Or `positions` i32[.., s], each token's place in
// its document: those at 0, and no others. The slope of the square root is capped at 1000, as in the published
// implementation: without the cap a gate that saturates (a = 1) makes the gradient infinite.
#include "megacpp/program/ops/rg_lru.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"
#include "megacpp/program/ops/sample_values.h"

namespace megacpp::ops {
namespace {

constexpr double kDecayScale = 8.0;
constexpr double kSqrtSlopeFloor = 1e-6;  // slope of sqrt(v) is 1 / sqrt(max(4 v, floor))

constexpr size_t kForwardOperands = 4, kGradOperands = 6;  // without `continues` or `positions`

double sigmoid(double v) { return 1.0 / (1.0 + std::exp(-v)); }
double softplus(double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); }

bool is_positions(const ir::TensorType& type) { return type.dtype == ir::DType::i32; }

// `count` operands, or one more: continues or positions.
void require_inputs(std::string_view op, const Types& operands, size_t count) {
  require_operands(operands.size() == count || operands.size() == count + 1, op, operands,
                   fmt::format("{} operands, or one more: continues or positions", count));
  require_float_rank_from(op, "x", operands[0], 2);
  require_float_shape(op, "input_gate", operands[1], operands[0].shape);
  require_float_shape(op, "recurrence_gate", operands[2], operands[0].shape);
  require_float_shape(op, "p", operands[3], {operands[0].dim(-1)});
  const ir::Shape& x = operands[0].shape;
  if (operands.size() == count) return;
  if (is_positions(operands[count])) {
    require_type(op, "positions", operands[count], {ir::DType::i32, {x.begin(), x.end() - 1}});
  } else {
    require_float_shape(op, "continues", operands[count], {x.begin(), x.end() - 2});
  }
}

Types infer_forward(const Types& operands, const ir::Attrs&) {
  require_inputs("rg_lru", operands, kForwardOperands);
  return {operands[0]};
}

Types infer_rg_lru_grad(const Types& operands, const ir::Attrs&) {
  require_inputs("rg_lru_grad", operands, kGradOperands);
  require_float_shape("rg_lru_grad", "h", operands[4], operands[0].shape);
  require_float_shape("rg_lru_grad", "dh", operands[5], operands[0].shape);
  return {operands[0], operands[1], operands[2], operands[3]};
}

struct ScanSizes {
  int64_t batch, seq, channels;
};

ScanSizes sizes_of(const ir::TensorType& x) {
  const int64_t seq = x.dim(-2), channels = x.dim(-1);
  return {x.elements() / std::max<int64_t>(1, seq * channels), seq, channels};
}

// Whether position t of sequence b has the reset.
bool starts(std::span<const Tensor> in, size_t count, int64_t b, int64_t t) {
  if (in.size() == count) return t == 0;
  if (is_positions(in[count].type)) return in[count][b * in[count].type.dim(-1) + t] == 0.0;
  return t == 0 && in[count][b] == 0.0;
}

void forward_reference(std::span<const Tensor> in, std::span<Tensor> results, const ir::Attrs&) {
  const auto [batch, seq, channels] = sizes_of(in[0].type);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < channels; ++c) {
      double h = 0;
      for (int64_t t = 0; t < seq; ++t) {
        const int64_t i = (b * seq + t) * channels + c;
        const double log_a = -kDecayScale * sigmoid(in[2][i]) * softplus(in[3][c]);
        const bool reset = starts(in, kForwardOperands, b, t);
        const double a = reset ? 0.0 : std::exp(log_a);
        const double m = reset ? 1.0 : std::sqrt(-std::expm1(2 * log_a));
        h = a * h + m * sigmoid(in[1][i]) * in[0][i];
        results[0][i] = h;
      }
    }
}

void grad_reference(std::span<const Tensor> in, std::span<Tensor> results, const ir::Attrs&) {
  const auto [batch, seq, channels] = sizes_of(in[0].type);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < channels; ++c) {
      double carry = 0;  // a_{t+1} times the cotangent of h_{t+1}
      for (int64_t t = seq - 1; t >= 0; --t) {
        const int64_t i = (b * seq + t) * channels + c;
        const double input = sigmoid(in[1][i]), r = sigmoid(in[2][i]), x = in[0][i];
        const double log_a = -kDecayScale * r * softplus(in[3][c]);
        const double a = std::exp(log_a), a_squared = std::exp(2 * log_a), remainder = -std::expm1(2 * log_a);
        const bool reset = starts(in, kGradOperands, b, t);
        const double m = reset ? 1.0 : std::sqrt(remainder);
        const double g = in[5][i] + carry;
        carry = reset ? 0.0 : a * g;
        results[0][i] = g * m * input;
        results[1][i] = g * m * x * input * (1 - input);
        if (reset) continue;
        const double previous = t == 0 ? 0.0 : in[4][i - channels];
        const double slope = 1.0 / std::sqrt(std::max(4 * remainder, kSqrtSlopeFloor));
        const double dlog_a = g * previous * a - g * input * x * slope * 2 * a_squared;
        results[2][i] = -kDecayScale * softplus(in[3][c]) * dlog_a * r * (1 - r);
        results[3][c] -= kDecayScale * r * dlog_a * sigmoid(in[3][c]);
      }
    }
}

// What both decompositions start from; all [.., s, c] in f32.
struct Gates {
  ValueId x, input, r, softplus_p;
  ValueId reset;      // pred: position 0 where the sequence or a document starts
  ValueId a;          // zero at a reset
  ValueId m;          // one at a reset
  ValueId remainder;  // 1 - a^2 as if there were no reset
};

// 1 - exp(-2 w) without cancellation for small w: 2 tanh(w) / (1 + tanh(w)).
ValueId one_minus_exp(Builder& b, ValueId w) {
  const ValueId t = b.tanh(w);
  const ValueId twice_t = b.scale(t, 2.0);
  const ValueId one_plus_t = b.offset(t, 1.0);
  return b.div(twice_t, one_plus_t);
}

ValueId build_reset(Builder& b, const std::vector<ValueId>& operands, size_t count) {
  const ir::Shape shape = b.shape(operands[0]);
  const int64_t leading = b.type(operands[0]).rank() - 2;
  if (operands.size() == count) {
    const ValueId position = b.iota(shape, leading);
    return b.compare(position, b.constant(0, shape, ir::DType::i32), "eq");
  }
  std::vector<int64_t> dims(static_cast<size_t>(b.type(operands[count]).rank()));
  std::iota(dims.begin(), dims.end(), int64_t{0});
  if (is_positions(b.type(operands[count]))) {
    const ValueId positions = b.broadcast(operands[count], shape, dims);
    return b.compare(positions, b.constant(0, shape, ir::DType::i32), "eq");
  }
  const ValueId position = b.iota(shape, leading, ir::DType::f32);
  const ValueId continues = b.broadcast(b.convert(operands[count], ir::DType::f32), shape, dims);
  const ValueId sum = b.add(position, continues);
  return b.compare(sum, b.constant(0.0, shape), "eq");
}

// `count` as in require_inputs.
Gates build_gates(Builder& b, const std::vector<ValueId>& operands, size_t count) {
  constexpr auto kF32 = ir::DType::f32;
  const ir::Shape shape = b.shape(operands[0]);
  Gates g;
  g.x = b.convert(operands[0], kF32);
  g.input = b.logistic(b.convert(operands[1], kF32));
  g.r = b.logistic(b.convert(operands[2], kF32));
  g.softplus_p = b.broadcast(b.softplus(b.convert(operands[3], kF32)), shape, {b.type(operands[0]).rank() - 1});
  g.reset = build_reset(b, operands, count);
  const ValueId w = b.scale(b.mul(g.r, g.softplus_p), kDecayScale);  // -log a
  g.remainder = one_minus_exp(b, w);
  const ValueId reset_a = b.constant(0.0, shape);
  g.a = b.select(g.reset, reset_a, b.exp(b.neg(w)));
  const ValueId reset_m = b.constant(1.0, shape);
  g.m = b.select(g.reset, reset_m, b.sqrt(g.remainder));
  return g;
}

std::vector<ValueId> decompose_forward(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs&) {
  const Gates g = build_gates(b, operands, kForwardOperands);
  const ValueId driven = b.mul(g.m, b.mul(g.input, g.x));
  const int64_t dim = b.type(g.x).rank() - 2;
  const ValueId h = b.one("linear_recurrence", {g.a, driven}, {{"dim", dim}, {"reverse", int64_t{0}}});
  return {b.convert(h, b.type(operands[0]).dtype)};
}

// v (1 - v): the slope of the logistic function from its value.
ValueId logistic_slope(Builder& b, ValueId v) { return b.mul(v, b.sub(b.constant_like(1.0, v), v)); }

std::vector<ValueId> decompose_rg_lru_grad(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs&) {
  constexpr auto kF32 = ir::DType::f32;
  const Gates g = build_gates(b, operands, kGradOperands);
  const int64_t dim = b.type(g.x).rank() - 2, seq = b.type(g.x).dim(dim);
  const ValueId h = b.convert(operands[4], kF32), dh = b.convert(operands[5], kF32);
  const ValueId next_a = b.slice(b.pad(g.a, dim, 0, 1), dim, 1, seq);
  const ValueId previous_h = b.slice(b.pad(h, dim, 1, 0), dim, 0, seq);
  const ValueId total = b.one("linear_recurrence", {next_a, dh}, {{"dim", dim}, {"reverse", int64_t{1}}});
  const ValueId driven = b.mul(total, g.m);
  const ValueId dx = b.mul(driven, g.input);
  const ValueId driven_x = b.mul(driven, g.x);
  const ValueId dinput = b.mul(driven_x, logistic_slope(b, g.input));
  const ValueId four_remainders = b.scale(g.remainder, 4.0);
  const ValueId floor = b.constant_like(kSqrtSlopeFloor, g.remainder);
  const ValueId slope = b.rsqrt(b.max(four_remainders, floor));
  // a is zero at a reset, which clears both terms there.
  const ValueId through_a = b.mul(b.mul(total, previous_h), g.a);
  const ValueId dm = b.mul(b.mul(total, g.input), g.x);
  const ValueId m_slope = b.mul(b.scale(b.square(g.a), 2.0), slope);
  const ValueId through_m = b.mul(dm, m_slope);
  const ValueId dw = b.scale(b.sub(through_m, through_a), kDecayScale);
  const ValueId dr = b.mul(dw, g.softplus_p);
  const ValueId drecurrence = b.mul(dr, logistic_slope(b, g.r));
  std::vector<int64_t> positions(static_cast<size_t>(dim + 1));
  std::iota(positions.begin(), positions.end(), int64_t{0});
  const ValueId dsoftplus_p = b.reduce_sum(b.mul(dw, g.r), positions);
  const ValueId dp = b.mul(dsoftplus_p, b.logistic(b.convert(operands[3], kF32)));
  std::vector<ValueId> results = {dx, dinput, drecurrence, dp};
  for (size_t i = 0; i < results.size(); ++i) results[i] = b.convert(results[i], b.type(operands[i]).dtype);
  return results;
}

Cotangents rg_lru_cotangents(const GradArgs& args) {
  std::vector<ValueId> operands = args.operands;
  operands.insert(operands.begin() + kForwardOperands, {args.results[0], *args.cotangents[0]});
  const std::vector<ValueId> grads = args.builder.node("rg_lru_grad", operands);
  Cotangents cotangents(grads.begin(), grads.end());
  cotangents.resize(args.operands.size());  // none for the last one
  return cotangents;
}

std::string leading_names(const NodeView& view) { return numbered_names("b", view.operands[0].rank() - 2); }
std::string last_names(const NodeView& view, size_t count) {
  if (view.operands.size() == count) return "";
  return ", " + leading_names(view) + (is_positions(view.operands[count]) ? "s" : "");
}

// So far below zero that a is 1 or next to it, and the slope of the square root is at its cap or would be infinite. Of
// the gradient alone: finite differences of the forward know no cap.
void saturate_recurrence_gate(Tensor& gate) {
  for (int64_t i = 0; i < gate.elements(); ++i) gate[i] = i % 3 == 0 ? -200.0 : i % 3 == 1 ? -40.0 : -17.0;
}

std::vector<Sample> make_samples(bool with_cotangent) {
  std::vector<Sample> samples;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, ir::Shape>>{{"even", {2, 8, 6}},
                                                                                  {"one_step", {3, 1, 5}},
                                                                                  {"odd_sizes", {1, 37, 67}},
                                                                                  {"runs", {2, 4, 5, 3}},
                                                                                  {"documents", {2, 11, 5}},
                                                                                  {"documents_runs", {2, 2, 7, 3}}}) {
    const ir::TensorType full = {ir::DType::f32, shape};
    Sample sample{.name = name, .operands = {full, full, full, {ir::DType::f32, {shape.back()}}}, .attrs = {}};
    if (with_cotangent) sample.operands.insert(sample.operands.end(), {full, full});
    if (name.starts_with("documents")) {
      sample.operands.push_back({ir::DType::i32, {shape.begin(), shape.end() - 1}});
      sample.fill = [](std::vector<Tensor>& operands) { fill_document_positions(operands.back()); };
    } else if (shape.size() > 3) {
      sample.operands.push_back({ir::DType::f32, {shape.begin(), shape.end() - 2}});
      sample.fill = [](std::vector<Tensor>& operands) {
        Tensor& continues = operands.back();
        for (int64_t i = 0; i < continues.elements(); ++i) continues[i] = i % 4 == 0 ? 0.0 : 1.0;
      };
    }
    samples.push_back(std::move(sample));
  }
  if (with_cotangent) {
    samples.push_back({.name = "saturated", .operands = samples.front().operands, .attrs = {}});
    samples.back().fill = [](std::vector<Tensor>& operands) { saturate_recurrence_gate(operands[2]); };
  }
  return samples;
}

}  // namespace

ValueId rg_lru_log_decay(Builder& b, ValueId recurrence_gate, ValueId p) {
  const ValueId r = b.logistic(b.convert(recurrence_gate, ir::DType::f32));
  const ValueId rate = b.scale(b.softplus(b.convert(p, ir::DType::f32)), -kDecayScale);
  return b.mul(r, b.broadcast(rate, b.shape(r), {b.type(r).rank() - 1}));
}

OpDef rg_lru_def() {
  OpDef def;
  def.name = "rg_lru";
  def.doc = "real-gated linear recurrent unit from gate pre-activations";
  def.infer = infer_forward;
  def.factors = [](const NodeView& view) {
    const std::string x = leading_names(view) + "s c", inputs = x + "," + x + "," + x + ", c";
    return factors_from(view, inputs + last_names(view, kForwardOperands) + " -> " + x, "s");
  };
  def.grad = rg_lru_cotangents;
  def.constant_operands = {
      {kForwardOperands, "whether the run before is continued: yes or no, which no parameter moves"}};
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
  def.infer = infer_rg_lru_grad;
  def.factors = [](const NodeView& view) {
    const std::string x = leading_names(view) + "s c", inputs = x + "," + x + "," + x + ", c";
    const std::string operands = inputs + "," + x + "," + x + last_names(view, kGradOperands);
    return factors_from(view, operands + " -> " + inputs, "s");
  };
  def.no_grad = "made by autodiff; second derivatives are not taken";
  def.cost = [](const NodeView& view) { return Cost{40.0 * static_cast<double>(view.results[0].elements())}; };
  def.reference = grad_reference;
  def.decompose = decompose_rg_lru_grad;
  def.samples = [] { return make_samples(true); };
  return def;
}

}  // namespace megacpp::ops
