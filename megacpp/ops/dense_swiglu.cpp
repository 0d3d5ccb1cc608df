// SPDX-License-Identifier: Apache-2.0
// SwiGLU of a dense feed-forward inside the products around it, for backends whose kernels have epilogues.
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"
#include "megacpp/ops/swiglu_parts.h"

namespace megacpp::ops {
namespace {

using ir::DType;

// x[.., h] times w[h, f], or transposed w[f, h].
ir::Attrs dense_attrs(const ir::TensorType& x, bool transposed) {
  using List = std::vector<int64_t>;
  return {{"lhs_contract", List{x.rank() - 1}},
          {"rhs_contract", List{transposed ? 1 : 0}},
          {"lhs_batch", List{}},
          {"rhs_batch", List{}}};
}

ir::TensorType dense_type(const ir::TensorType& x, const ir::TensorType& w, bool transposed) {
  return op_def("dot").infer({x, w}, dense_attrs(x, transposed))[0];
}

Tensor dense_product(const Tensor& x, const Tensor& w, const ir::TensorType& type, bool transposed) {
  const std::vector<Tensor> operands = {x, w};
  std::vector<Tensor> product = {Tensor::zeros(type)};
  op_def("dot").reference(operands, product, dense_attrs(x.type, transposed));
  return std::move(product[0]);
}

// "m0 m1 ": of all dimensions but the last.
std::string dense_rows(const NodeView& view) { return numbered_names("m", view.operands[0].rank() - 1); }

std::string comma_list(const std::string& text, size_t count) {
  std::string all = text;
  for (size_t i = 1; i < count; ++i) all += ", " + text;
  return all;
}

// ---- dense_swiglu: x[.., h], w_gate[h, f], w_up[h, f] ----

Types infer_dense_swiglu(const Types& operands, const ir::Attrs& attrs) {
  require_operands(
      operands.size() == 3 && operands[0].rank() >= 2 && operands[1].rank() == 2 && operands[1] == operands[2],
      "dense_swiglu", operands, "x[..,h], w_gate[h,f], w_up like it");
  return swiglu_types(dense_type(operands[0], operands[1], false), attrs);
}

void reference_dense_swiglu(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  reference_swiglu_parts(dense_product(operands[0], operands[1], results[0].type, false),
                         dense_product(operands[0], operands[2], results[0].type, false), results);
}

std::vector<ir::ValueId> decompose_dense_swiglu(Builder& b, const std::vector<ir::ValueId>& operands,
                                                const ir::Attrs& attrs) {
  const ir::Attrs dims = dense_attrs(b.type(operands[0]), false);
  const ir::ValueId gate = b.one("dot", {operands[0], operands[1]}, dims);
  const ir::ValueId up = b.one("dot", {operands[0], operands[2]}, dims);
  return swiglu_parts(b, gate, up, attrs);
}

// ---- dense_swiglu_grad: dy[.., h], w_down[f, h], gate[.., f], up[.., f] ----

Types infer_dense_swiglu_grad(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 4 && operands[0].rank() >= 2 && operands[1].rank() == 2, "dense_swiglu_grad",
                   operands, "dy[..,h], w_down[f,h], gate[..,f], up[..,f]");
  const ir::TensorType dh = dense_type(operands[0], operands[1], true);
  require_type("dense_swiglu_grad", "gate", operands[2], dh);
  require_type("dense_swiglu_grad", "up", operands[3], dh);
  return swiglu_grad_types(dh, attrs);
}

void reference_dense_swiglu_grad(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const Tensor dh = dense_product(operands[0], operands[1], results[0].type, true);
  reference_swiglu_grad_parts(dh, operands[2], operands[3], results);
}

std::vector<ir::ValueId> decompose_dense_swiglu_grad(Builder& b, const std::vector<ir::ValueId>& operands,
                                                     const ir::Attrs& attrs) {
  const ir::ValueId dh = b.one("dot", {operands[0], operands[1]}, dense_attrs(b.type(operands[0]), true));
  return swiglu_grad_parts(b, dh, operands[2], operands[3], attrs);
}

Sample dense_sample(std::string name, std::vector<ir::Shape> shapes, const char* flag, int64_t is_set) {
  Sample sample{.name = std::move(name), .operands = {}, .attrs = {{flag, is_set}}};
  for (ir::Shape& shape : shapes) sample.operands.push_back({DType::f32, std::move(shape)});
  return sample;
}

}  // namespace

OpDef dense_swiglu_def() {
  return {
      .name = "dense_swiglu",
      .doc = "silu(x w_gate) * (x w_up); with keep_products also both products",
      .infer = infer_dense_swiglu,
      // The product of two sums is no sum of products: the contraction stays whole.
      .factors =
          [](const NodeView& view) {
            const std::string rows = dense_rows(view);
            return factors_from(view, rows + "h, h f, h f -> " + comma_list(rows + "f", view.results.size()), "h");
          },
      .no_grad = kSwigluHasNoGrad,
      .cost = swiglu_cost,
      .work = Work::product,
      .reference = reference_dense_swiglu,
      .decompose = decompose_dense_swiglu,
      .samples =
          [] {
            return std::vector<Sample>{dense_sample("rank3", {{2, 3, 4}, {4, 6}, {4, 6}}, "keep_products", 1),
                                       dense_sample("forward", {{4, 6}, {6, 2}, {6, 2}}, "keep_products", 0),
                                       dense_sample("odd", {{5, 3}, {3, 7}, {3, 7}}, "keep_products", 1)};
          },
  };
}

OpDef dense_swiglu_grad_def() {
  return {
      .name = "dense_swiglu_grad",
      .doc =
          "gradients of silu(gate) * up for gate and up, where its own is dy w_down^T; with make_h also silu(gate) * "
          "up",
      .infer = infer_dense_swiglu_grad,
      // h has no part of the contraction: partial sums of the others beside a whole h would be no such result.
      .factors =
          [](const NodeView& view) {
            const std::string rows = dense_rows(view), wide = rows + "f";
            return factors_from(
                view, rows + "h, f h, " + wide + ", " + wide + " -> " + comma_list(wide, view.results.size()), "h");
          },
      .no_grad = kSwigluHasNoGrad,
      .cost = swiglu_grad_cost,
      .work = Work::product,
      .reference = reference_dense_swiglu_grad,
      .decompose = decompose_dense_swiglu_grad,
      .may_alias = 2,
      .samples =
          [] {
            return std::vector<Sample>{dense_sample("rank3", {{2, 3, 4}, {6, 4}, {2, 3, 6}, {2, 3, 6}}, "make_h", 0),
                                       dense_sample("with_h", {{4, 6}, {2, 6}, {4, 2}, {4, 2}}, "make_h", 1),
                                       dense_sample("odd", {{5, 3}, {7, 3}, {5, 7}, {5, 7}}, "make_h", 1)};
          },
  };
}

}  // namespace megacpp::ops
