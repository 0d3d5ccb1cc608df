// SPDX-License-Identifier: Apache-2.0
// SwiGLU of experts inside the products around it, for backends whose kernels have epilogues.
#include <cmath>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/expert_rows.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

constexpr const char* kSwigluHasNoGrad = "made by the scheduler, after gradients are taken";

// ---- What is made of products ----

double logistic_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Products over the last dimension of the first operand, and the scalar ops of their epilogue for each element.
Cost products_with_epilogue(const NodeView& view, double products, double scalar_ops) {
  const double contracted = static_cast<double>(view.operands[0].dim(-1));
  return Cost{(products * 2.0 * contracted + scalar_ops) * static_cast<double>(view.results[0].elements())};
}

// h, and gate and up where they are kept.
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

// Of two products and h.
Cost swiglu_cost(const NodeView& view) { return products_with_epilogue(view, 2, 3); }

// dgate, dup, and h where it is made.
Types swiglu_grad_types(const ir::TensorType& product, const ir::Attrs& attrs) {
  return Types(attrs.flag("make_h") ? 3 : 2, product);
}

// In the order of the gradients' own rules, so that a program has the same bits with the op and without.
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

// Of one product and what is made of it.
Cost swiglu_grad_cost(const NodeView& view) {
  return products_with_epilogue(view, 1, view.results.size() == 3 ? 11 : 10);
}

const ir::Attrs& product_attrs(bool transposed) {
  static const ir::Attrs kPlain = {{"transpose_w", int64_t{0}}}, kTransposed = {{"transpose_w", int64_t{1}}};
  return transposed ? kTransposed : kPlain;
}

ir::TensorType product_type(const Types& operands, bool transposed) {
  return op_def("ragged_dot").infer(operands, product_attrs(transposed))[0];
}

Tensor reference_product(std::span<const Tensor> operands, const ir::TensorType& type, bool transposed) {
  std::vector<Tensor> product = {Tensor::zeros(type)};
  op_def("ragged_dot").reference(operands, product, product_attrs(transposed));
  return std::move(product[0]);
}

// ---- ragged_swiglu: x[rows, h], w_gate[E, h, f], w_up[E, h, f], counts ----

Types infer_swiglu(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 4 && operands[1] == operands[2], "ragged_swiglu", operands,
                   "x[b,c,E,r,h] or [b,c,r,h], w_gate[E,h,f], w_up like it, i32 counts[b,c,E]");
  return swiglu_types(product_type({operands[0], operands[1], operands[3]}, false), attrs);
}

Factors swiglu_factors(const NodeView& view) {
  const auto [rows, replicated] = row_names(view.operands[0]);
  std::string spec = rows + "h, x h f, x h f, b c x -> " + rows + "f";
  for (size_t r = 1; r < view.results.size(); ++r) spec += ", " + rows + "f";
  // The product of two sums is no sum of products: the contraction stays whole.
  return factors_from(view, spec, replicated + " h");
}

void reference_swiglu(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const std::vector<Tensor> of_gate = {operands[0], operands[1], operands[3]};
  const std::vector<Tensor> of_up = {operands[0], operands[2], operands[3]};
  reference_swiglu_parts(reference_product(of_gate, results[0].type, false),
                         reference_product(of_up, results[0].type, false), results);
}

std::vector<ir::ValueId> decompose_swiglu(Builder& b, const std::vector<ir::ValueId>& operands,
                                          const ir::Attrs& attrs) {
  const auto product = [&](ir::ValueId matrices) {
    return b.one("ragged_dot", {operands[0], matrices, operands[3]}, product_attrs(false));
  };
  const ir::ValueId gate = product(operands[1]), up = product(operands[2]);
  return swiglu_parts(b, gate, up, attrs);
}

// ---- ragged_swiglu_grad: dy[rows, h], w_down[E, f, h], counts, gate[rows, f], up[rows, f] ----

Types infer_swiglu_grad(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 5, "ragged_swiglu_grad", operands,
                   "dy[b,c,E,r,h] or [b,c,r,h], w_down[E,f,h], i32 counts[b,c,E], gate[..,f], up[..,f]");
  const ir::TensorType dh = product_type({operands[0], operands[1], operands[2]}, true);
  require_type("ragged_swiglu_grad", "gate", operands[3], dh);
  require_type("ragged_swiglu_grad", "up", operands[4], dh);
  return swiglu_grad_types(dh, attrs);
}

Factors swiglu_grad_factors(const NodeView& view) {
  const auto [rows, replicated] = row_names(view.operands[0]);
  const std::string wide = rows + "f";
  std::string spec = rows + "h, x f h, b c x, " + wide + ", " + wide + " -> " + wide + ", " + wide;
  if (view.results.size() == 3) spec += ", " + wide;
  // h has no part of the contraction: partial sums of the others beside a whole h would be no such result.
  return factors_from(view, spec, replicated + " h");
}

void reference_swiglu_grad(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const Tensor dh = reference_product(operands.first(3), results[0].type, true);
  reference_swiglu_grad_parts(dh, operands[3], operands[4], results);
}

std::vector<ir::ValueId> decompose_swiglu_grad(Builder& b, const std::vector<ir::ValueId>& operands,
                                               const ir::Attrs& attrs) {
  const ir::ValueId dh = b.one("ragged_dot", {operands[0], operands[1], operands[2]}, product_attrs(true));
  return swiglu_grad_parts(b, dh, operands[3], operands[4], attrs);
}

// ---- Samples: rows in use as `counts` has them; gate and up are zero in the others, as ragged_dot leaves them ----

struct SampleRows {
  ir::Shape shape;  // but for the width
  int64_t experts;
  std::vector<double> counts;

  ir::TensorType of_width(int64_t width) const {
    ir::Shape wide = shape;
    wide.push_back(width);
    return {DType::f32, wide};
  }
  ir::TensorType counts_type() const { return {DType::i32, {shape[0], shape[1], experts}}; }
};

SampleRows packed_rows() { return {{2, 1, 8}, 3, {3, 4, 1, 0, 2, 4}}; }           // the last two unused
SampleRows placed_rows() { return {{2, 1, 4, 3}, 4, {2, 0, 5, 3, 1, 3, 0, 0}}; }  // some beyond 3
SampleRows one_row_each() { return {{1, 2, 3}, 3, {1, 1, 1, 0, 3, 0}}; }

Sample swiglu_sample(std::string name, const SampleRows& rows, int64_t h, int64_t f, int64_t keep_products) {
  const ir::TensorType w{DType::f32, {rows.experts, h, f}};
  return {.name = std::move(name),
          .operands = {rows.of_width(h), w, w, rows.counts_type()},
          .attrs = {{"keep_products", keep_products}},
          .fill = [counts = rows.counts](std::vector<Tensor>& operands) { operands[3].data = counts; }};
}

std::vector<Sample> swiglu_samples() {
  return {swiglu_sample("packed", packed_rows(), 4, 6, 1), swiglu_sample("packed_forward", packed_rows(), 4, 6, 0),
          swiglu_sample("places", placed_rows(), 2, 4, 1), swiglu_sample("odd", one_row_each(), 3, 5, 1)};
}

// ones[rows, 1] times ones[E, 1, f]: 1 in rows in use.
void clear_unused_rows(Tensor& tensor, const Tensor& counts) {
  ir::TensorType ones_type = tensor.type;
  ones_type.shape.back() = 1;
  std::vector<Tensor> operands = {Tensor::zeros(ones_type),
                                  Tensor::zeros({DType::f32, {counts.type.dim(2), 1, tensor.type.dim(-1)}}), counts};
  for (size_t i = 0; i < 2; ++i) operands[i].data.assign(operands[i].data.size(), 1.0);
  const Tensor is_used = reference_product(operands, tensor.type, false);
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor[i] *= is_used[i];
}

Sample swiglu_grad_sample(std::string name, const SampleRows& rows, int64_t h, int64_t f, int64_t make_h) {
  return {.name = std::move(name),
          .operands = {rows.of_width(h),
                       {DType::f32, {rows.experts, f, h}},
                       rows.counts_type(),
                       rows.of_width(f),
                       rows.of_width(f)},
          .attrs = {{"make_h", make_h}},
          .fill = [counts = rows.counts](std::vector<Tensor>& operands) {
            operands[2].data = counts;
            clear_unused_rows(operands[3], operands[2]);
            clear_unused_rows(operands[4], operands[2]);
          }};
}

std::vector<Sample> swiglu_grad_samples() {
  return {swiglu_grad_sample("packed", packed_rows(), 4, 6, 0), swiglu_grad_sample("packed_h", packed_rows(), 4, 6, 1),
          swiglu_grad_sample("places", placed_rows(), 2, 4, 1), swiglu_grad_sample("odd", one_row_each(), 3, 5, 0)};
}

}  // namespace

OpDef ragged_swiglu_def() {
  return {
      .name = "ragged_swiglu",
      .doc =
          "silu(x w_gate) * (x w_up) of each expert's rows; with keep_products also both products; rows that are not "
          "in use are zero",
      .infer = infer_swiglu,
      .factors = swiglu_factors,
      .no_grad = kSwigluHasNoGrad,
      .cost = swiglu_cost,
      .work = Work::product,
      .reference = reference_swiglu,
      .decompose = decompose_swiglu,
      .samples = swiglu_samples,
  };
}

OpDef ragged_swiglu_grad_def() {
  return {
      .name = "ragged_swiglu_grad",
      .doc =
          "gradients of silu(gate) * up for gate and up, where its own is dy w_down^T of each expert's rows; with "
          "make_h also silu(gate) * up; gate and up are zero in rows that are not in use, and so are the results",
      .infer = infer_swiglu_grad,
      .factors = swiglu_grad_factors,
      .no_grad = kSwigluHasNoGrad,
      .cost = swiglu_grad_cost,
      .work = Work::product,
      .reference = reference_swiglu_grad,
      .decompose = decompose_swiglu_grad,
      .may_alias = 3,
      .samples = swiglu_grad_samples,
  };
}

}  // namespace megacpp::ops
