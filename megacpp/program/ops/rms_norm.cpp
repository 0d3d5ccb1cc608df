// SPDX-License-Identifier: Apache-2.0
// Root-mean-square norm over groups of `group_size` neighbours of the last dimension (absent or 0: all of it):
//   y = x * rstd * (w + offset),  rstd = 1 / sqrt(mean(x^2) + eps).
// Groups are named by their size, not their number, so that a split of the last dimension between groups keeps the
// node.
#include <cmath>

#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::ValueId;

int64_t group_size(const ir::TensorType& x, const ir::Attrs& attrs) {
  const int64_t size = attrs.integer("group_size", 0);
  return size == 0 ? x.dim(-1) : size;
}

ir::TensorType rstd_type(const ir::TensorType& x, const ir::Attrs& attrs) {
  ir::Shape shape = x.shape;
  shape.back() /= group_size(x, attrs);
  return {DType::f32, shape};
}

void require_x_w(std::string op, const Types& operands, const ir::Attrs& attrs, std::string wanted) {
  const bool two = operands.size() >= 2 && operands[0].rank() >= 1 && is_float(operands[0].dtype) &&
                   is_float(operands[1].dtype) && operands[1].shape == ir::Shape{operands[0].dim(-1)};
  require_operands(two, op, operands, wanted);
  const int64_t size = group_size(operands[0], attrs);
  require_operands(size > 0 && operands[0].dim(-1) % size == 0, op, operands,
                   "a last dimension that group_size = " + std::to_string(size) + " divides");
}

Types infer_rms_norm(const Types& operands, const ir::Attrs& attrs) {
  const std::string wanted = "x[...,d], w[d]";
  require_operands(operands.size() == 2, "rms_norm", operands, wanted);
  require_x_w("rms_norm", operands, attrs, wanted);
  return {operands[0], rstd_type(operands[0], attrs)};
}

Types infer_rms_norm_grad(const Types& operands, const ir::Attrs& attrs) {
  const std::string wanted = "x[...,d], w[d], f32 rstd[...,groups], dy like x and perhaps an addend like x";
  require_operands(operands.size() == 4 || operands.size() == 5, "rms_norm_grad", operands, wanted);
  require_x_w("rms_norm_grad", operands, attrs, wanted);
  require_operands(
      operands[2] == rstd_type(operands[0], attrs) && operands[3] == operands[0] && operands.back() == operands[0],
      "rms_norm_grad", operands, wanted);
  return {operands[0], operands[1]};
}

// A view of [..., d] as [..., groups, group_size], in f32.
struct Groups {
  Builder& b;
  ir::Shape whole;    // [..., d]
  ir::Shape grouped;  // [..., groups, group_size]

  Groups(Builder& builder, const ir::TensorType& x, const ir::Attrs& attrs)
      : b(builder), whole(x.shape), grouped(rstd_type(x, attrs).shape) {
    grouped.push_back(group_size(x, attrs));
  }
  int64_t last() const { return static_cast<int64_t>(whole.size()); }
  ValueId split(ValueId a) const { return b.reshape(b.convert(a, DType::f32), grouped); }
  ValueId merge(ValueId a, DType dtype) const { return b.convert(b.reshape(a, whole), dtype); }
  ValueId sum(ValueId a) const { return b.reduce_sum(a, {last()}); }  // [..., groups]
  ValueId mean(ValueId a) const { return b.scale(sum(a), 1.0 / static_cast<double>(grouped.back())); }
  ValueId spread(ValueId per_group) const {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < last(); ++d) dims.push_back(d);
    return b.broadcast(per_group, grouped, dims);
  }
  // w + offset, over all rows
  ValueId gain(ValueId w, const ir::Attrs& attrs) const {
    const ValueId shifted = b.offset(b.convert(w, DType::f32), attrs.real("offset", 0.0));
    return b.reshape(b.broadcast(shifted, whole, {last() - 1}), grouped);
  }
};

// rstd is a result for the gradient's sake; a cotangent for it is met rarely: d rstd / dx = -rstd^3 x / group_size.
ValueId add_rstd_part(const GradArgs& args, ValueId dx) {
  Builder& b = args.builder;
  const ir::TensorType type = b.type(args.operands[0]);
  const Groups groups(b, type, args.attrs);
  const ValueId rstd = args.results[1];
  const ValueId factor = b.scale(b.mul(*args.cotangents[1], b.mul(rstd, b.square(rstd))),
                                 -1.0 / static_cast<double>(groups.grouped.back()));
  const ValueId x = groups.split(args.operands[0]);
  return b.add(dx, groups.merge(b.mul(x, groups.spread(factor)), type.dtype));
}

Cotangents rms_norm_cotangents(const GradArgs& args) {
  Builder& b = args.builder;
  const ValueId dy = args.cotangents[0] ? *args.cotangents[0] : b.constant_like(0, args.results[0]);
  const std::vector<ValueId> parts =
      b.node("rms_norm_grad", {args.operands[0], args.operands[1], args.results[1], dy}, args.attrs);
  return {args.cotangents[1] ? add_rstd_part(args, parts[0]) : parts[0], parts[1]};
}

void reference_rms_norm(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& x = operands[0];
  const int64_t size = group_size(x.type, attrs);
  const int64_t width = x.type.dim(-1);
  for (int64_t group = 0; group < x.elements() / size; ++group) {
    double squares = 0;
    for (int64_t i = group * size; i < (group + 1) * size; ++i) squares += x[i] * x[i];
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(size) + attrs.real("eps"));
    for (int64_t i = group * size; i < (group + 1) * size; ++i)
      results[0][i] = x[i] * rstd * (operands[1][i % width] + attrs.real("offset", 0.0));
    results[1][group] = rstd;
  }
}

void reference_rms_norm_grad(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const Tensor& x = operands[0];
  const Tensor& dy = operands[3];
  const int64_t size = group_size(x.type, attrs);
  const int64_t width = x.type.dim(-1);
  for (int64_t group = 0; group < x.elements() / size; ++group) {
    const double rstd = operands[2][group];
    const auto gain = [&](int64_t i) { return operands[1][i % width] + attrs.real("offset", 0.0); };
    double along = 0;  // mean of dy * gain * normalised x
    for (int64_t i = group * size; i < (group + 1) * size; ++i)
      along += dy[i] * gain(i) * x[i] * rstd / static_cast<double>(size);
    for (int64_t i = group * size; i < (group + 1) * size; ++i) {
      results[0][i] = rstd * (dy[i] * gain(i) - x[i] * rstd * along) + (operands.size() == 5 ? operands[4][i] : 0.0);
      results[1][i % width] += dy[i] * x[i] * rstd;
    }
  }
}

std::vector<ValueId> decompose_rms_norm(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  const ir::TensorType type = b.type(operands[0]);
  const Groups groups(b, type, attrs);
  const ValueId x = groups.split(operands[0]);
  const ValueId rstd = b.rsqrt(b.offset(groups.mean(b.square(x)), attrs.real("eps")));
  const ValueId normalised = b.mul(x, groups.spread(rstd));
  const ValueId y = b.mul(normalised, groups.gain(operands[1], attrs));
  return {groups.merge(y, type.dtype), rstd};
}

std::vector<ValueId> decompose_rms_norm_grad(Builder& b, const std::vector<ValueId>& operands, const ir::Attrs& attrs) {
  const ir::TensorType type = b.type(operands[0]);
  const Groups groups(b, type, attrs);
  const ValueId rstd = groups.spread(operands[2]);
  const ValueId dy = groups.split(operands[3]);
  const ValueId normalised = b.mul(groups.split(operands[0]), rstd);
  const ValueId dnormalised = b.mul(dy, groups.gain(operands[1], attrs));
  const ValueId along = groups.spread(groups.mean(b.mul(dnormalised, normalised)));
  ValueId dx = b.mul(rstd, b.sub(dnormalised, b.mul(normalised, along)));
  if (operands.size() == 5) dx = b.add(dx, groups.split(operands[4]));
  std::vector<int64_t> rows;
  for (int64_t d = 0; d + 1 < type.rank(); ++d) rows.push_back(d);
  const ValueId products = groups.merge(b.mul(dy, normalised), DType::f32);
  const ValueId dw = rows.empty() ? products : b.reduce_sum(products, rows);
  return {groups.merge(dx, type.dtype), b.convert(dw, b.type(operands[1]).dtype)};
}

// One group is the whole dimension, and splitting it between groups means nothing.
std::string_view replicated_names(const NodeView& view) {
  return group_size(view.operands[0], view.attrs) == view.operands[0].dim(-1) ? "g e" : "e";
}

Sample rms_norm_sample(std::string name, ir::Shape shape, int64_t size, double offset) {
  const int64_t width = shape.back();
  return {.name = std::move(name),
          .operands = {{DType::f32, std::move(shape)}, {DType::f32, {width}}},
          .attrs = {{"eps", 1e-5}, {"group_size", size}, {"offset", offset}}};
}

// rstd in the gradient's samples is any positive number: the op takes it as given.
Sample rms_norm_grad_sample(std::string name, ir::Shape shape, int64_t size, double offset) {
  Sample made = rms_norm_sample(std::move(name), std::move(shape), size, offset);
  made.operands.push_back(rstd_type(made.operands[0], made.attrs));
  made.operands.push_back(made.operands[0]);
  made.fill = [](std::vector<Tensor>& operands) {
    for (double& rstd : operands[2].data) rstd = 1.5 + 0.5 * rstd;
  };
  return made;
}

Sample with_addend(Sample sample) {
  sample.name += "_accumulated";
  sample.operands.push_back(sample.operands[0]);
  return sample;
}

Cost rms_norm_cost(const NodeView& view) {
  const double per_element = view.operands.size() == 2 ? 4.0 : 9.0;
  return Cost{per_element * static_cast<double>(view.operands[0].elements())};
}

}  // namespace

OpDef rms_norm_def() {
  return {
      .name = "rms_norm",
      .doc = "root-mean-square norm of the last dimension, or of groups of it, and the reciprocal deviations",
      .infer = infer_rms_norm,
      .factors =
          [](const NodeView& view) {
            const std::string rows = numbered_names("b", view.operands[0].rank() - 1);
            return factors_from(view, rows + "(g e), (g e) -> " + rows + "(g e), " + rows + "g",
                                replicated_names(view));
          },
      .grad = rms_norm_cotangents,
      .cost = rms_norm_cost,
      .reference = reference_rms_norm,
      .decompose = decompose_rms_norm,
      .samples =
          [] {
            return std::vector<Sample>{
                rms_norm_sample("rows", {4, 2, 8}, 0, 0.0), rms_norm_sample("grouped", {2, 12}, 3, 0.0),
                rms_norm_sample("odd_with_offset", {3, 7}, 0, 1.0), rms_norm_sample("one_row", {6}, 2, 0.5)};
          },
  };
}

OpDef rms_norm_grad_def() {
  return {
      .name = "rms_norm_grad",
      .doc = "gradients of rms_norm for x and w; an optional fifth operand is added to that for x",
      .infer = infer_rms_norm_grad,
      .factors =
          [](const NodeView& view) {
            const std::string rows = numbered_names("b", view.operands[0].rank() - 1);
            const std::string addend = view.operands.size() == 5 ? ", " + rows + "(g e)" : "";
            return factors_from(
                view, rows + "(g e), (g e), " + rows + "g, " + rows + "(g e)" + addend + " -> " + rows + "(g e), (g e)",
                replicated_names(view));
          },
      .no_grad = "made by autodiff; second derivatives are not taken",
      .cost = rms_norm_cost,
      .reference = reference_rms_norm_grad,
      .decompose = decompose_rms_norm_grad,
      .may_alias = 3,
      .addend = 4,
      .samples =
          [] {
            return std::vector<Sample>{rms_norm_grad_sample("rows", {4, 2, 8}, 0, 0.0),
                                       rms_norm_grad_sample("grouped", {2, 12}, 3, 0.0),
                                       rms_norm_grad_sample("odd_with_offset", {3, 7}, 0, 1.0),
                                       with_addend(rms_norm_grad_sample("rows", {4, 2, 8}, 0, 0.0)),
                                       with_addend(rms_norm_grad_sample("grouped", {2, 12}, 3, 0.5)),
                                       with_addend(rms_norm_grad_sample("odd", {3, 7}, 0, 0.0))};
          },
  };
}

}  // namespace megacpp::ops
