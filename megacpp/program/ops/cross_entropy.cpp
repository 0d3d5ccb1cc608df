// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of each row of logits [.., v] against its label [..]. A negative label masks the row: its loss
// is zero. The log of the sum of exponentials (lse) is a result of its own, so that penalties on it can be built
// outside. Logits may be bf16, as products of bf16 leave them: all that is computed of them is f32.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::ValueId;

// One element a row of the logits.
ir::TensorType per_row(const ir::TensorType& logits, DType dtype) {
  return {dtype, ir::Shape(logits.shape.begin(), logits.shape.end() - 1)};
}

bool are_logits_labels(const Types& operands) {
  return operands.size() >= 2 && operands[0].rank() >= 2 && is_float(operands[0].dtype) &&
         operands[1] == per_row(operands[0], DType::i32);
}

Types infer_cross_entropy(const Types& operands, const ir::Attrs&) {
  require_operands(operands.size() == 2 && are_logits_labels(operands), "cross_entropy", operands,
                   "logits[..,v], i32 labels[..]");
  return Types(2, per_row(operands[0], DType::f32));
}

// Of the gradient: as the logits have it, or as asked for.
DType result_dtype(const ir::TensorType& logits, const ir::Attrs& attrs) {
  return attrs.has("dtype") ? require_dtype("cross_entropy_grad", attrs.text("dtype")) : logits.dtype;
}

Types infer_cross_entropy_grad(const Types& operands, const ir::Attrs& attrs) {
  bool holds = operands.size() == 5 && are_logits_labels(operands);
  for (size_t i = 2; holds && i < 5; ++i) holds = operands[i] == per_row(operands[0], DType::f32);
  require_operands(holds, "cross_entropy_grad", operands,
                   "logits[..,v], i32 labels[..], f32 lse[..], dnll[..], dlse[..]");
  return {{result_dtype(operands[0], attrs), operands[0].shape}};
}

Cotangents cross_entropy_cotangents(const GradArgs& args) {
  Builder& b = args.builder;
  const auto or_zero = [&](size_t result) {
    return args.cotangents[result] ? *args.cotangents[result] : b.constant_like(0, args.results[result]);
  };
  const ValueId dnll = or_zero(0);
  const ValueId dlse = or_zero(1);
  return {b.one("cross_entropy_grad", {args.operands[0], args.operands[1], args.results[1], dnll, dlse}), std::nullopt};
}

void reference_cross_entropy(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const Tensor& logits = operands[0];
  const int64_t width = logits.type.dim(-1);
  for (int64_t row = 0; row < logits.elements() / width; ++row) {
    double top = logits[row * width];
    for (int64_t c = 1; c < width; ++c) top = std::max(top, logits[row * width + c]);
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += std::exp(logits[row * width + c] - top);
    const double lse = top + std::log(sum);
    const int64_t label = static_cast<int64_t>(operands[1][row]);
    MEGACPP_CHECK(label < width) << "label " << label << " of " << width;
    results[0][row] = label < 0 ? 0.0 : lse - logits[row * width + label];
    results[1][row] = lse;
  }
}

void reference_cross_entropy_grad(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
  const Tensor& logits = operands[0];
  const int64_t width = logits.type.dim(-1);
  for (int64_t row = 0; row < logits.elements() / width; ++row) {
    const int64_t label = static_cast<int64_t>(operands[1][row]);
    const double dnll = label < 0 ? 0.0 : operands[3][row];
    for (int64_t c = 0; c < width; ++c) {
      const double probability = std::exp(logits[row * width + c] - operands[2][row]);
      results[0][row * width + c] = probability * (dnll + operands[4][row]) - (c == label ? dnll : 0.0);
    }
  }
}

// Nodes both decompositions need, over a graph of f32.
struct Rows {
  Builder& b;
  ValueId logits;  // f32[..,v]
  ValueId labels;  // i32[..]

  int64_t columns() const { return b.type(logits).rank() - 1; }  // the dimension v
  ValueId spread(ValueId per_row) const {                        // [..] -> [..,v]
    std::vector<int64_t> dims(static_cast<size_t>(columns()));
    std::iota(dims.begin(), dims.end(), int64_t{0});
    return b.broadcast(per_row, b.shape(logits), std::move(dims));
  }
  ValueId is_label() const {  // pred[..,v]
    const ValueId column = b.iota(b.shape(logits), columns());
    return b.compare(column, spread(labels), "eq");
  }
  ValueId unless_masked(ValueId per_row) const {  // 0 where the label is negative
    const ValueId masked = b.compare(labels, b.constant_like(0, labels), "lt");
    return b.select(masked, b.constant_like(0, per_row), per_row);
  }
  ValueId at_label(ValueId values) const {  // [..,v], 0 off the label
    const ValueId on_label = is_label();
    return b.select(on_label, values, b.constant_like(0, values));
  }
};

std::vector<ValueId> decompose_cross_entropy(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs&) {
  const Rows rows = {b, b.convert(operands[0], DType::f32), operands[1]};
  const ValueId top = b.reduce_max(rows.logits, {rows.columns()});
  const ValueId sum = b.reduce_sum(b.exp(b.sub(rows.logits, rows.spread(top))), {rows.columns()});
  const ValueId lse = b.add(b.log(sum), top);
  const ValueId at_label = b.reduce_sum(rows.at_label(rows.logits), {rows.columns()});
  return {rows.unless_masked(b.sub(lse, at_label)), lse};
}

std::vector<ValueId> decompose_cross_entropy_grad(Builder& b, const std::vector<ValueId>& operands,
                                                  const ir::Attrs& attrs) {
  const Rows rows = {b, b.convert(operands[0], DType::f32), operands[1]};
  const ValueId dnll = rows.unless_masked(operands[3]);
  const ValueId probability = b.exp(b.sub(rows.logits, rows.spread(operands[2])));
  const ValueId from_lse = b.mul(probability, rows.spread(b.add(dnll, operands[4])));
  const ValueId dlogits = b.sub(from_lse, rows.at_label(rows.spread(dnll)));
  return {b.convert(dlogits, result_dtype(b.type(operands[0]), attrs))};
}

// Every fourth row is masked.
void fill_labels(std::vector<Tensor>& operands) {
  const int64_t width = operands[0].type.dim(-1);
  for (int64_t row = 0; row < operands[1].elements(); ++row)
    operands[1][row] = row % 4 == 1 ? -1.0 : static_cast<double>(row * 5 % width);
}

Sample cross_entropy_sample(std::string name, const ir::TensorType& logits, size_t per_row_operands) {
  Types operands = {logits, per_row(logits, DType::i32)};
  operands.resize(2 + per_row_operands, per_row(logits, DType::f32));
  return {.name = std::move(name),
          .operands = std::move(operands),
          .attrs = {},
          .low = -3.0,
          .high = 3.0,
          .fill = fill_labels};
}

std::vector<Sample> cross_entropy_samples(size_t per_row_operands) {
  const std::vector<std::pair<const char*, ir::TensorType>> logits = {
      {"even", {DType::f32, {6, 8}}},           {"odd", {DType::f32, {5, 7}}},
      {"batch", {DType::f32, {2, 4, 9}}},       {"one_class", {DType::f32, {3, 1}}},
      {"narrow_logits", {DType::bf16, {6, 8}}}, {"narrow_logits_odd", {DType::bf16, {5, 7}}},
  };
  std::vector<Sample> samples;
  for (const auto& [name, type] : logits) samples.push_back(cross_entropy_sample(name, type, per_row_operands));
  return samples;
}

// Of the gradient, with results in another dtype than the logits' too.
std::vector<Sample> cross_entropy_grad_samples() {
  std::vector<Sample> samples = cross_entropy_samples(3);
  const size_t own_dtype = samples.size();
  for (size_t i = 0; i < own_dtype; ++i) {
    Sample other = samples[i];
    const bool is_narrow = other.operands[0].dtype == DType::bf16;
    other.name += is_narrow ? "_wide_result" : "_narrow_result";
    other.attrs.set("dtype", std::string(is_narrow ? "f32" : "bf16"));
    samples.push_back(std::move(other));
  }
  return samples;
}

// `spec` writes the leading dimensions as T. Labels are looked up among all columns, so v stays whole; split columns
// are the decomposition's.
Factors row_factors(const NodeView& view, std::string spec) {
  const std::string rows = numbered_names("t", view.operands[0].rank() - 1);
  for (size_t at; (at = spec.find("T ")) != std::string::npos;) spec.replace(at, 2, rows);
  return factors_from(view, spec, "v");
}

Cost cross_entropy_cost(const NodeView& view) { return Cost{5.0 * static_cast<double>(view.operands[0].elements())}; }

}  // namespace

OpDef cross_entropy_def() {
  return {
      .name = "cross_entropy",
      .doc = "negative log likelihood of each row's label (0 where the label is negative), and log-sum-exp",
      .infer = infer_cross_entropy,
      .factors = [](const NodeView& view) { return row_factors(view, "T v, T -> T , T "); },
      .grad = cross_entropy_cotangents,
      .cost = cross_entropy_cost,
      .reference = reference_cross_entropy,
      .decompose = decompose_cross_entropy,
      .widens_operand = 0,
      .samples = [] { return cross_entropy_samples(0); },
  };
}

OpDef cross_entropy_grad_def() {
  return {
      .name = "cross_entropy_grad",
      .doc = "gradient of cross_entropy for the logits, in their dtype or another",
      .infer = infer_cross_entropy_grad,
      .factors = [](const NodeView& view) { return row_factors(view, "T v, T , T , T , T -> T v"); },
      .no_grad = "made by autodiff; second derivatives are not taken",
      .cost = cross_entropy_cost,
      .reference = reference_cross_entropy_grad,
      .decompose = decompose_cross_entropy_grad,
      .may_alias = 0,
      .chooses_result_dtype = true,
      .widens_operand = 0,
      .samples = cross_entropy_grad_samples,
  };
}

}  // namespace megacpp::ops
