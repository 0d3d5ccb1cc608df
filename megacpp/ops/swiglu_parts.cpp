// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/swiglu_parts.h"

#include <cmath>

namespace megacpp::ops {
namespace {

double logistic_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Products over the last dimension of the first operand, and the scalar ops of their epilogue for each element.
Cost products_with_epilogue(const NodeView& view, double products, double scalar_ops) {
  const double contracted = static_cast<double>(view.operands[0].dim(-1));
  return Cost{(products * 2.0 * contracted + scalar_ops) * static_cast<double>(view.results[0].elements())};
}

}  // namespace

Types swiglu_types(const ir::TensorType& product, const ir::Attrs& attrs) {
  return Types(attrs.flag("keep_products") ? 3 : 1, product);
}

std::vector<ir::ValueId> swiglu_parts(Builder& builder, ir::ValueId gate, ir::ValueId up, const ir::Attrs& attrs) {
  const ir::ValueId h = builder.mul(builder.silu(gate), up);
  return attrs.flag("keep_products") ? std::vector{h, gate, up} : std::vector{h};
}

void reference_swiglu_parts(const Tensor& gate, const Tensor& up, std::span<Tensor> results) {
  for (int64_t i = 0; i < gate.elements(); ++i) results[0][i] = gate[i] * logistic_of(gate[i]) * up[i];
  if (results.size() == 1) return;
  results[1].data = gate.data;
  results[2].data = up.data;
}

Cost swiglu_cost(const NodeView& view) { return products_with_epilogue(view, 2, 3); }

Types swiglu_grad_types(const ir::TensorType& product, const ir::Attrs& attrs) {
  return Types(attrs.flag("make_h") ? 3 : 2, product);
}

std::vector<ir::ValueId> swiglu_grad_parts(Builder& b, ir::ValueId dh, ir::ValueId gate, ir::ValueId up,
                                           const ir::Attrs& attrs) {
  const ir::ValueId s = b.logistic(gate), silu = b.mul(gate, s);
  const ir::ValueId dsilu = b.mul(dh, up), dup = b.mul(dh, silu);
  const ir::ValueId slope = b.mul(b.mul(dsilu, gate), s);
  const ir::ValueId dgate = b.add(b.mul(dsilu, s), b.sub(slope, b.mul(slope, s)));
  return attrs.flag("make_h") ? std::vector{dgate, dup, b.mul(silu, up)} : std::vector{dgate, dup};
}

void reference_swiglu_grad_parts(const Tensor& dh, const Tensor& gate, const Tensor& up, std::span<Tensor> results) {
  for (int64_t i = 0; i < dh.elements(); ++i) {
    const double s = logistic_of(gate[i]), silu = gate[i] * s;
    results[0][i] = dh[i] * up[i] * (s + silu * (1 - s));
    results[1][i] = dh[i] * silu;
    if (results.size() == 3) results[2][i] = silu * up[i];
  }
}

Cost swiglu_grad_cost(const NodeView& view) {
  return products_with_epilogue(view, 1, view.results.size() == 3 ? 11 : 10);
}

}  // namespace megacpp::ops
