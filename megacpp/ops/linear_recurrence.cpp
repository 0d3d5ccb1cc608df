// SPDX-License-Identifier: Apache-2.0
// h_t = a_t h_{t-1} + x_t with h_{-1} = 0, elementwise over channels; with reverse it runs from the end:
// h_t = a_t h_{t+1} + x_t.
#include "megacpp/ops/builder.h"
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {
namespace {

Types infer(const Types& operands, const ir::Attrs&) {
  require_operand_count("linear_recurrence", operands, 2);
  require_float_rank("linear_recurrence", "x", operands[1], 3);
  require_float_shape("linear_recurrence", "a", operands[0], operands[1].shape);
  return {operands[1]};
}

void reference(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& a = operands[0];
  const Tensor& x = operands[1];
  const int64_t batch = x.type.dim(0), seq = x.type.dim(1), channels = x.type.dim(2);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < channels; ++c) {
      double h = 0;
      for (int64_t step = 0; step < seq; ++step) {
        const int64_t t = attrs.flag("reverse") ? seq - 1 - step : step;
        const int64_t i = (b * seq + t) * channels + c;
        h = a[i] * h + x[i];
        results[0][i] = h;
      }
    }
}

// [b, s, c] with position t holding what stood at t + 1; the last position is zero.
ValueId shift_earlier(Builder& b, ValueId v) { return b.slice(b.pad(v, 1, 0, 1), 1, 1, b.type(v).dim(1)); }

// [b, s, c] with position t holding what stood at t - 1; the first position is zero.
ValueId shift_later(Builder& b, ValueId v) { return b.slice(b.pad(v, 1, 1, 0), 1, 0, b.type(v).dim(1)); }

Cotangents grad(const GradArgs& args) {
  Builder& b = args.builder;
  const ValueId a = args.operands[0], h = args.results[0], dh = *args.cotangents[0];
  const bool reverse = args.attrs.flag("reverse");
  const ValueId next_a = reverse ? shift_later(b, a) : shift_earlier(b, a);
  const ValueId previous_h = reverse ? shift_earlier(b, h) : shift_later(b, h);
  const ValueId dx = b.one("linear_recurrence", {next_a, dh}, {{"reverse", int64_t{reverse ? 0 : 1}}});
  const ValueId da = b.mul(dx, previous_h);
  return {b.convert(da, b.type(a).dtype), dx};
}

ir::TensorType f32(ir::Shape shape) { return {ir::DType::f32, std::move(shape)}; }

}  // namespace

OpDef linear_recurrence_def() {
  OpDef def;
  def.name = "linear_recurrence";
  def.doc = "h_t = a_t h_{t-1} + x_t along the sequence, or from its end with reverse";
  def.infer = infer;
  def.factors = [](const NodeView& view) { return factors_from(view, "b s c, b s c -> b s c", "s"); };
  def.grad = grad;
  def.cost = [](const NodeView& view) { return Cost{2.0 * static_cast<double>(view.results[0].elements())}; };
  def.reference = reference;
  def.may_alias = 1;
  def.samples = [] {
    return std::vector<Sample>{
        {.name = "forward", .operands = {f32({2, 9, 6}), f32({2, 9, 6})}, .attrs = {{"reverse", int64_t{0}}}},
        {.name = "reverse", .operands = {f32({2, 7, 5}), f32({2, 7, 5})}, .attrs = {{"reverse", int64_t{1}}}},
        {.name = "one_step", .operands = {f32({3, 1, 67}), f32({3, 1, 67})}, .attrs = {}},
    };
  };
  return def;
}

}  // namespace megacpp::ops
