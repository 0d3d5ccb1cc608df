// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding, halves style: the first 2r of d dimensions turn in pairs (i, i + r).
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::TensorType;

Types infer_rope(const Types& operands, const ir::Attrs&) {
  require_operand_count("rope", operands, 3);
  const TensorType& x = operands[0];
  const TensorType& cos = operands[1];
  require_float_rank("rope", "x", x, 4);
  require_float_rank("rope", "cos", cos, 2);
  require_type("rope", "sin", operands[2], cos);
  require_operands(cos.dim(0) == x.dim(1) && 2 * cos.dim(1) <= x.dim(3), "rope", operands,
                   "x[b,s,h,d], cos[s,r], sin[s,r] with 2 r <= d");
  return {x};
}

void reference_rope(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& x = operands[0];
  const int64_t s = x.type.dim(1), h = x.type.dim(2), d = x.type.dim(3), r = operands[1].type.dim(1);
  const double sign = attrs.flag("inverse") ? -1.0 : 1.0;
  results[0].data = x.data;
  for (int64_t row = 0; row < x.type.dim(0) * s * h; ++row) {
    const int64_t position = row / h % s;
    for (int64_t i = 0; i < r; ++i) {
      const double cos = operands[1][position * r + i];
      const double sin = sign * operands[2][position * r + i];
      const double low = x[row * d + i];
      const double high = x[row * d + i + r];
      results[0][row * d + i] = low * cos - high * sin;
      results[0][row * d + i + r] = high * cos + low * sin;
    }
  }
}

std::vector<ValueId> decompose_rope(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  const TensorType type = b.type(operands[0]);
  const int64_t d = type.dim(3), r = b.type(operands[1]).dim(1);
  const ir::Shape half = {type.dim(0), type.dim(1), type.dim(2), r};
  const ValueId x = b.convert(operands[0], DType::f32);
  const ValueId cos = b.broadcast(b.convert(operands[1], DType::f32), half, {1, 3});
  ValueId sin = b.broadcast(b.convert(operands[2], DType::f32), half, {1, 3});
  if (attrs.flag("inverse")) sin = b.neg(sin);
  const ValueId low = b.slice(x, 3, 0, r);
  const ValueId high = b.slice(x, 3, r, r);
  const ValueId low_cos = b.mul(low, cos);
  const ValueId high_sin = b.mul(high, sin);
  const ValueId turned_low = b.sub(low_cos, high_sin);
  const ValueId high_cos = b.mul(high, cos);
  const ValueId low_sin = b.mul(low, sin);
  std::vector<ValueId> parts = {turned_low, b.add(high_cos, low_sin)};
  if (2 * r < d) parts.push_back(b.slice(x, 3, 2 * r, d - 2 * r));
  return {b.convert(b.concatenate(parts, 3), type.dtype)};
}

// A rotation's transpose is the rotation back.
Cotangents rope_cotangents(const GradArgs& args) {
  ir::Attrs attrs = args.attrs;
  attrs.set("inverse", int64_t{attrs.flag("inverse") ? 0 : 1});
  const ValueId dx = args.builder.one("rope", {*args.cotangents[0], args.operands[1], args.operands[2]}, attrs);
  return {dx, std::nullopt, std::nullopt};
}

std::vector<Sample> rope_samples() {
  const auto types = [](ir::Shape x, int64_t r) {
    const TensorType table{DType::f32, {x[1], r}};
    return Types{{DType::f32, x}, table, table};
  };
  return {{.name = "full", .operands = types({2, 6, 4, 8}, 4), .attrs = {}},
          {.name = "partial_odd", .operands = types({1, 5, 3, 11}, 3), .attrs = {}},
          {.name = "inverse", .operands = types({2, 7, 2, 16}, 4), .attrs = {{"inverse", int64_t{1}}}}};
}

}  // namespace

OpDef rope_def() {
  return {.name = "rope",
          .doc = "rotary position embedding of x[b,s,h,d] by cos[s,r] and sin[s,r] on the first 2r dimensions",
          .infer = infer_rope,
          .factors = [](const NodeView& view) { return factors_from(view, "b s h d, s r, s r -> b s h d", "d r"); },
          .grad = rope_cotangents,
          .constant_operands = {{1, "cosines of positions, which no parameter moves"},
                                {2, "sines of positions, which no parameter moves"}},
          .cost =
              [](const NodeView& view) {
                const TensorType& x = view.operands[0];
                return Cost{6.0 * static_cast<double>(x.elements() / x.dim(3) * view.operands[1].dim(1))};
              },
          .reference = reference_rope,
          .decompose = decompose_rope,
          .may_alias = 0,
          .samples = rope_samples};
}

}  // namespace megacpp::ops
