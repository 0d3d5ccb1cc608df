// SPDX-License-Identifier: Apache-2.0
// h_t = a_t h_{t-1} + x_t with h_{-1} = 0 along dimension `dim` (absent: 1), elementwise over the others; with reverse
// it runs from the end: h_t = a_t h_{t+1} + x_t.
#include <algorithm>
#include <numeric>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

int64_t dim_of(const ir::Attrs& attrs) { return attrs.integer("dim", 1); }

Types infer_linear_recurrence(const Types& operands, const ir::Attrs& attrs) {
  require_operand_count("linear_recurrence", operands, 2);
  require_dim("linear_recurrence", dim_of(attrs), operands[1].shape);
  require_float_shape("linear_recurrence", "x", operands[1], operands[1].shape);
  require_float_shape("linear_recurrence", "a", operands[0], operands[1].shape);
  return {operands[1]};
}

void reference_linear_recurrence(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& a = operands[0];
  const Tensor& x = operands[1];
  const int64_t seq = x.type.dim(dim_of(attrs));
  const int64_t channels = ir::strides_of(x.type.shape)[static_cast<size_t>(dim_of(attrs))];
  const int64_t batch = x.elements() / std::max<int64_t>(1, seq * channels);
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

// Position t of `dim` holds what stood at t + 1; the last position is zero.
ValueId steps_earlier(Builder& b, ValueId v, int64_t dim) {
  return b.slice(b.pad(v, dim, 0, 1), dim, 1, b.type(v).dim(dim));
}

// Position t of `dim` holds what stood at t - 1; the first position is zero.
ValueId steps_later(Builder& b, ValueId v, int64_t dim) {
  return b.slice(b.pad(v, dim, 1, 0), dim, 0, b.type(v).dim(dim));
}

Cotangents linear_recurrence_cotangents(const GradArgs& args) {
  Builder& b = args.builder;
  const ValueId a = args.operands[0], h = args.results[0], dh = *args.cotangents[0];
  const bool reverse = args.attrs.flag("reverse");
  const int64_t dim = dim_of(args.attrs);
  const ValueId next_a = reverse ? steps_later(b, a, dim) : steps_earlier(b, a, dim);
  const ValueId previous_h = reverse ? steps_earlier(b, h, dim) : steps_later(b, h, dim);
  const ValueId dx = b.one("linear_recurrence", {next_a, dh}, {{"dim", dim}, {"reverse", int64_t{reverse ? 0 : 1}}});
  const ValueId da = b.mul(dx, previous_h);
  return {b.convert(da, b.type(a).dtype), dx};
}

// h over ever longer spans that end at t, and what the state before the span is multiplied by: each pass doubles the
// span. `towards` is 1, or -1 where states come from later positions.
void scan(HloWriter& w, HloValue& a, HloValue& h, int64_t dim, int64_t towards) {
  for (int64_t span = 1; span < h.type.shape[static_cast<size_t>(dim)]; span *= 2) {
    h = w.binary("add", h, w.binary("multiply", a, w.shift(h, dim, towards * span)));
    a = w.binary("multiply", a, w.shift(a, dim, towards * span, 1));
  }
}

constexpr int64_t kBlock = 16;  // steps scanned together; the states between blocks are scanned after that

// In f32: a product of many decays loses too much in bf16. Backwards by shifts to the other side and not by a reverse:
// in kernels of several results XLA for CUDA (JAX 0.11.2, H200) gets those wrong, with gradients 1,000 times too large.
HloResults write_linear_recurrence(HloWriter& w, const HloArgs& args) {
  const int64_t dim = dim_of(args.attrs());
  const size_t d = static_cast<size_t>(dim);
  const int64_t towards = args.attrs().flag("reverse") ? -1 : 1;
  const ir::Shape shape = args.result().shape;
  const int64_t length = shape[d], blocks = (length + kBlock - 1) / kBlock;
  const auto blocked = [&](const HloValue& x) {  // [.., blocks, kBlock, ..]; zeros behind the end change nothing
    ir::Shape split = shape;
    split[d] = blocks;
    split.insert(split.begin() + dim + 1, kBlock);
    const HloValue whole = w.convert(x, "f32");
    return w.reshape(length == blocks * kBlock ? whole : w.pad(whole, dim, 0, blocks * kBlock - length, 0), split);
  };
  HloValue a = blocked(args.operands[0]), h = blocked(args.operands[1]);
  scan(w, a, h, dim + 1, towards);
  if (blocks > 1) {
    const int64_t last = towards > 0 ? kBlock - 1 : 0;  // position of a block that its state leaves from
    HloValue over = w.slice(a, dim + 1, last, 1), state = w.slice(h, dim + 1, last, 1);
    scan(w, over, state, dim, towards);
    const HloValue entering = w.shift(state, dim, towards);
    std::vector<int64_t> all(h.type.shape.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    h = w.binary("add", h, w.binary("multiply", a, w.broadcast(entering, h.type.shape, all)));
  }
  ir::Shape joined = shape;
  joined[d] = blocks * kBlock;
  return {w.convert(w.slice(w.reshape(h, joined), dim, 0, length), args.result().element)};
}

}  // namespace

OpDef linear_recurrence_def() {
  OpDef def;
  def.name = "linear_recurrence";
  def.doc = "h_t = a_t h_{t-1} + x_t along dimension dim, or from its end with reverse";
  def.infer = infer_linear_recurrence;
  def.factors = [](const NodeView& view) {
    Factors factors = elementwise_factors(view);
    factors.factors[static_cast<size_t>(dim_of(view.attrs))].kind = FactorKind::replicated;
    return factors;
  };
  def.grad = linear_recurrence_cotangents;
  def.cost = [](const NodeView& view) { return Cost{2.0 * static_cast<double>(view.results[0].elements())}; };
  def.reference = reference_linear_recurrence;
  def.runs_over_positions = true;
  def.may_alias = 1;
  def.stablehlo = write_linear_recurrence;
  def.samples = [] {
    return std::vector<Sample>{
        {.name = "forward",
         .operands = {{ir::DType::f32, {2, 9, 6}}, {ir::DType::f32, {2, 9, 6}}},
         .attrs = {{"reverse", int64_t{0}}}},
        {.name = "reverse",
         .operands = {{ir::DType::f32, {2, 7, 5}}, {ir::DType::f32, {2, 7, 5}}},
         .attrs = {{"reverse", int64_t{1}}}},
        {.name = "blocks",
         .operands = {{ir::DType::f32, {2, 37, 3}}, {ir::DType::f32, {2, 37, 3}}},
         .attrs = {{"reverse", int64_t{0}}}},
        {.name = "blocks_reverse",
         .operands = {{ir::DType::f32, {2, 37, 3}}, {ir::DType::f32, {2, 37, 3}}},
         .attrs = {{"reverse", int64_t{1}}}},
        {.name = "one_step", .operands = {{ir::DType::f32, {3, 1, 67}}, {ir::DType::f32, {3, 1, 67}}}, .attrs = {}},
        {.name = "states",
         .operands = {{ir::DType::f32, {2, 4, 2, 3, 2}}, {ir::DType::f32, {2, 4, 2, 3, 2}}},
         .attrs = {}},
        {.name = "dim2",
         .operands = {{ir::DType::f32, {2, 2, 5, 3}}, {ir::DType::f32, {2, 2, 5, 3}}},
         .attrs = {{"dim", int64_t{2}}, {"reverse", int64_t{1}}}},
    };
  };
  return def;
}

}  // namespace megacpp::ops
