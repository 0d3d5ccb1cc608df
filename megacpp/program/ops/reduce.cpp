// SPDX-License-Identifier: Apache-2.0
// Reductions over dimensions, and running sums along one.
#include <limits>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/partition_rule.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Shape;

std::vector<int64_t> kept_dims(const ir::TensorType& type, const std::vector<int64_t>& dims) {
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < type.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(d);
  return kept;
}

// The largest element of a split dimension: of the chip's part first, then of all parts. Sums need no rule.
std::vector<PartitionedResult> partition_max(PartitionContext& context) {
  if (context.view().attrs.text("kind") != "max") return {};
  const ir::Sharding whole{.dims = context.sharding(0).dims};
  const auto& dims = context.view().attrs.list("dims");
  Builder& b = context.builder();
  ir::Axes split;
  ir::ValueId x = context.local(0, whole);
  for (const int64_t d : dims) {
    const ir::Axes& axes = whole.dims[static_cast<size_t>(d)];
    const double lowest = std::numeric_limits<float>::lowest();
    const int64_t size = context.view().operands[0].dim(d);
    x = fill_padding(b, x, {.dim = d, .size = size, .axes = axes, .mesh = context.mesh()}, lowest);
    split.insert(split.end(), axes.begin(), axes.end());
  }
  if (split.empty()) return {};
  ir::Sharding result;
  for (const int64_t d : kept_dims(context.view().operands[0], dims))
    result.dims.push_back(whole.dims[static_cast<size_t>(d)]);
  b.set_role(ir::Role::collective);
  const ir::ValueId own = b.reduce_max(x, dims);
  const ir::ValueId largest = b.one("all_reduce", {own},
                                    {{"axes", ir::to_string(split, context.mesh())},
                                     {"parts", context.mesh().size(split)},
                                     {"kind", std::string("max")},
                                     {"cause", std::string("reduce max over a split dimension")}});
  b.set_role(ir::Role::temporary);
  return {{largest, result}};
}

}  // namespace

OpDef reduce_def() {
  OpDef def;
  def.name = "reduce";
  def.doc = "sum or max over dims";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const auto& dims = attrs.list("dims");
    require_operand_count("reduce", operands, 1);
    bool fits = attrs.text("kind") == "sum" || attrs.text("kind") == "max";
    for (size_t i = 0; fits && i < dims.size(); ++i)
      fits = dims[i] >= 0 && dims[i] < operands[0].rank() && (i == 0 || dims[i - 1] < dims[i]);
    MEGACPP_REQUIRE(fits, E1301,
                    {.where = "reduce",
                     .got = attrs.text("kind") + " over " + ir::to_string(dims),
                     .wanted = "sum or max over ascending dimensions"});
    Shape shape;
    for (const int64_t d : kept_dims(operands[0], dims)) shape.push_back(operands[0].dim(d));
    return Types{{operands[0].dtype, shape}};
  };
  def.factors = [](const NodeView& view) {
    Factors factors;
    factors.operands.resize(1);
    factors.results.resize(1);
    const auto& dims = view.attrs.list("dims");
    const bool sum = view.attrs.text("kind") == "sum";
    for (int64_t d = 0; d < view.operands[0].rank(); ++d) {
      const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
      const FactorKind kind = !reduced ? FactorKind::parallel : sum ? FactorKind::reduction : FactorKind::replicated;
      factors.factors.push_back({"d" + std::to_string(d), view.operands[0].dim(d), kind});
      factors.operands[0].push_back({static_cast<int>(d)});
      if (!reduced) factors.results[0].push_back({static_cast<int>(d)});
    }
    return factors;
  };
  def.grad = [](const GradArgs& args) {
    Builder& b = args.builder;
    const ir::ValueId x = args.operands[0];
    const std::vector<int64_t> kept = kept_dims(b.type(x), args.attrs.list("dims"));
    const ir::ValueId dy = b.broadcast(*args.cotangents[0], b.shape(x), kept);
    if (args.attrs.text("kind") == "sum") return Cotangents{dy};
    const ir::ValueId is_max = b.compare(x, b.broadcast(args.results[0], b.shape(x), kept), "eq");
    return Cotangents{b.select(is_max, dy, b.constant_like(0.0, dy))};
  };
  def.linear = [](const NodeView& view) {
    return Linearity{view.attrs.text("kind") == "sum" ? Linearity::Kind::together : Linearity::Kind::no};
  };
  def.cost = [](const NodeView& view) { return Cost{static_cast<double>(view.operands[0].elements())}; };
  def.partition = partition_max;
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
    const bool sum = attrs.text("kind") == "sum";
    const std::vector<int64_t> kept = kept_dims(operands[0].type, attrs.list("dims"));
    for (double& element : results[0].data) element = sum ? 0.0 : -std::numeric_limits<double>::infinity();
    int64_t i = 0;
    for_each_index(operands[0].type.shape, [&](const Shape& index) {
      Shape target;
      for (const int64_t d : kept) target.push_back(index[static_cast<size_t>(d)]);
      double& element = results[0][flat_index(target, results[0].type.shape)];
      const double x = operands[0][i++];
      element = sum ? element + x : std::max(element, x);
    });
  };
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    const HloValue& x = args.operands[0];
    const bool is_sum = args.attrs().text("kind") == "sum";
    const HloValue wide = is_sum && is_narrow(x.type) ? w.convert(x, "f32") : x;
    const HloValue reduced = w.reduce(wide, args.attrs().list("dims"), is_sum ? "add" : "maximum");
    return HloResults{w.convert(reduced, x.type.element)};
  };
  def.samples = [] {
    const auto sample = [](std::string name, std::vector<int64_t> dims, std::string kind) {
      return Sample{.name = std::move(name),
                    .operands = {{DType::f32, {2, 3, 4}}},
                    .attrs = {{"dims", std::move(dims)}, {"kind", std::move(kind)}}};
    };
    return std::vector<Sample>{sample("last", {2}, "sum"),          sample("first", {0}, "sum"),
                               sample("middle", {1}, "sum"),        sample("outer", {0, 2}, "sum"),
                               sample("all", {0, 1, 2}, "sum"),     sample("max_last", {2}, "max"),
                               sample("max_leading", {0, 1}, "max")};
  };
  return def;
}

OpDef cumsum_def() {
  OpDef def;
  def.name = "cumsum";
  def.doc = "running sum along dimension dim, from the end with reverse";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_operand_count("cumsum", operands, 1);
    require_dim("cumsum", attrs.integer("dim"), operands[0].shape);
    return operands;
  };
  def.factors = [](const NodeView& view) {
    Factors factors = elementwise_factors(view);
    factors.factors[static_cast<size_t>(view.attrs.integer("dim"))].kind = FactorKind::replicated;
    return factors;
  };
  def.grad = [](const GradArgs& args) {
    return Cotangents{args.builder.cumsum(*args.cotangents[0], args.attrs.integer("dim"), !args.attrs.flag("reverse"))};
  };
  def.linear = linear_together;
  def.cost = [](const NodeView& view) { return Cost{static_cast<double>(view.operands[0].elements())}; };
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
    const int64_t dim = attrs.integer("dim");
    const Shape& shape = operands[0].type.shape;
    const int64_t size = operands[0].type.dim(dim), stride = ir::strides_of(shape)[static_cast<size_t>(dim)];
    for (int64_t i = 0; i < operands[0].elements(); ++i) {
      if ((i / stride) % size != 0) continue;  // i is the start of one line along dim
      double sum = 0;
      for (int64_t t = 0; t < size; ++t) {
        const int64_t at = i + (attrs.flag("reverse") ? size - 1 - t : t) * stride;
        results[0][at] = sum += operands[0][at];
      }
    }
  };
  def.may_alias = 0;
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    return HloResults{w.cumsum(args.operands[0], args.attrs().integer("dim"), args.attrs().flag("reverse"))};
  };
  def.samples = [] {
    const auto sample = [](std::string name, int64_t dim, int64_t reverse) {
      return Sample{.name = std::move(name),
                    .operands = {{DType::f32, {2, 5, 4}}},
                    .attrs = {{"dim", dim}, {"reverse", reverse}}};
    };
    return std::vector<Sample>{sample("middle", 1, 0), sample("last", 2, 0), sample("first_reversed", 0, 1),
                               sample("middle_reversed", 1, 1)};
  };
  return def;
}

}  // namespace megacpp::ops
