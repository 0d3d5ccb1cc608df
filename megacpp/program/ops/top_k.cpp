// SPDX-License-Identifier: Apache-2.0
// The k largest elements of each row, and the placement of their cotangents.
#include <algorithm>
#include <numeric>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;

Types infer_top_k(const Types& operands, const ir::Attrs& attrs) {
  const int64_t k = attrs.integer("k");
  require_operands(operands.size() == 1 && operands[0].rank() >= 1 && is_float(operands[0].dtype), "top_k", operands,
                   "x[...,e] of floats");
  require_operands(k >= 1 && k <= operands[0].dim(-1), "top_k", operands,
                   "a last dimension of at least k = " + std::to_string(k) + " >= 1");
  ir::Shape shape = operands[0].shape;
  shape.back() = k;
  return {{operands[0].dtype, shape}, {DType::i32, shape}};
}

Types infer_top_k_grad(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 2 && operands[0].rank() >= 1 && operands[0].dtype == DType::i32 &&
                       operands[0].shape == operands[1].shape && is_float(operands[1].dtype),
                   "top_k_grad", operands, "i32 indices[...,k], dvalues[...,k]");
  ir::Shape shape = operands[0].shape;
  shape.back() = attrs.integer("experts");
  return {{operands[1].dtype, shape}};
}

Cotangents grad_top_k(const GradArgs& args) {
  if (!args.cotangents[0]) return {std::nullopt};
  const int64_t experts = args.builder.type(args.operands[0]).dim(-1);
  return {args.builder.one("top_k_grad", {args.results[1], *args.cotangents[0]}, {{"experts", experts}})};
}

void reference_top_k(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& x = operands[0];
  const int64_t k = attrs.integer("k");
  const int64_t width = x.type.dim(-1);
  for (int64_t row = 0; row < x.elements() / width; ++row) {
    std::vector<int64_t> order(static_cast<size_t>(width));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return x[row * width + a] > x[row * width + b]; });
    for (int64_t j = 0; j < k; ++j) {
      const int64_t index = order[static_cast<size_t>(j)];
      results[0][row * k + j] = x[row * width + index];
      results[1][row * k + j] = static_cast<double>(index);
    }
  }
}

void reference_top_k_grad(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const int64_t k = operands[0].type.dim(-1);
  const int64_t width = results[0].type.dim(-1);
  for (int64_t i = 0; i < operands[0].elements(); ++i) {
    const int64_t index = static_cast<int64_t>(operands[0][i]);
    MEGACPP_CHECK(index >= 0 && index < width) << "index " << index << " of " << width;
    results[0][i / k * width + index] = operands[1][i];
  }
}

Sample top_k_grad_sample(std::string name, ir::Shape shape, int64_t experts) {
  return {.name = std::move(name),
          .operands = {{DType::i32, shape}, {DType::f32, shape}},
          .attrs = {{"experts", experts}},
          .fill = [experts](std::vector<Tensor>& operands) {
            // Distinct within a row: k consecutive indices from a start that moves with the row.
            Tensor& indices = operands[0];
            const int64_t k = indices.type.dim(-1);
            for (int64_t i = 0; i < indices.elements(); ++i)
              indices[i] = static_cast<double>((i / k * 3 + i % k) % experts);
          }};
}

HloResults hlo_top_k(HloWriter& w, const HloArgs& args) {
  const HloValue& x = args.operands[0];
  const int64_t last = static_cast<int64_t>(x.type.shape.size()) - 1, k = args.attrs().integer("k");
  const std::vector<HloValue> operands = {x, w.iota({"i32", x.type.shape}, last)};
  const std::string scalar = "tensor<" + x.type.element + ">";
  const std::vector<HloValue> sorted =
      w.sort(operands, last,
             "%r = \"stablehlo.compare\"(%a0, %b0) {comparison_direction = #stablehlo<comparison_direction GT>} : (" +
                 scalar + ", " + scalar + ") -> tensor<i1>");
  return {w.slice(sorted[0], last, 0, k), w.slice(sorted[1], last, 0, k)};
}

HloResults hlo_top_k_grad(HloWriter& w, const HloArgs& args) {
  const HloValue& dy = args.operands[1];
  const HloValue is_place = w.one_hot(args.operands[0], args.attrs().integer("experts"), "i1");  // [..,k,e]
  const int64_t k_dim = static_cast<int64_t>(dy.type.shape.size()) - 1;
  std::vector<int64_t> dims(dy.type.shape.size());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const HloValue wide = w.broadcast(dy, is_place.type.shape, dims);
  return {w.reduce(w.select(is_place, wide, w.constant(0, wide.type)), {k_dim}, "add")};
}

}  // namespace

OpDef top_k_def() {
  return {
      .name = "top_k",
      .doc = "k largest of the last dimension, descending, lower index first among equals, with their indices",
      .infer = infer_top_k,
      .factors =
          [](const NodeView& view) {
            const std::string rows = numbered_names("b", view.operands[0].rank() - 1);
            return factors_from(view, rows + "e -> " + rows + "k, " + rows + "k", "e k");
          },
      .grad = grad_top_k,
      .cost = [](const NodeView& view) { return Cost{static_cast<double>(view.operands[0].elements())}; },
      .reference = reference_top_k,
      .stablehlo = hlo_top_k,
      .samples =
          [] {
            return std::vector<Sample>{
                {.name = "router", .operands = {{DType::f32, {6, 8}}}, .attrs = {{"k", 2}}},
                {.name = "odd", .operands = {{DType::f32, {3, 2, 7}}}, .attrs = {{"k", 3}}},
                {.name = "whole_row", .operands = {{DType::f32, {5}}}, .attrs = {{"k", 5}}},
            };
          },
  };
}

OpDef top_k_grad_def() {
  return {
      .name = "top_k_grad",
      .doc = "places the cotangents of top_k's values at their indices",
      .infer = infer_top_k_grad,
      .factors =
          [](const NodeView& view) {
            const std::string rows = numbered_names("b", view.operands[0].rank() - 1);
            return factors_from(view, rows + "k, " + rows + "k -> " + rows + "e", "e k");
          },
      .no_grad = "made by autodiff; second derivatives are not taken",
      .cost = [](const NodeView&) { return Cost{}; },
      .reference = reference_top_k_grad,
      .stablehlo = hlo_top_k_grad,
      .samples =
          [] {
            return std::vector<Sample>{top_k_grad_sample("router", {6, 2}, 8), top_k_grad_sample("odd", {3, 2, 3}, 7),
                                       top_k_grad_sample("one_row", {5}, 5)};
          },
  };
}

}  // namespace megacpp::ops
