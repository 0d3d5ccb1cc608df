// SPDX-License-Identifier: Apache-2.0
// Ops that move elements without computing: broadcast, reshape, transpose, slice, pad, concatenate.
#include <numeric>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Shape;

Cost no_flops(const NodeView&) { return Cost{}; }

std::vector<Sample> one_sample(Shape shape, ir::Attrs attrs) {
  return {{.name = ir::to_string(shape), .operands = {{DType::f32, std::move(shape)}}, .attrs = std::move(attrs)}};
}

// Elementwise factors of the result, with one dimension kept whole.
Factors whole_along(const NodeView& view, int64_t dim) {
  Factors factors;
  const Shape& shape = view.results[0].shape;
  DimFactors dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int64_t>(d) == dim) {
      dims.emplace_back();  // filled per tensor below: the sizes differ
      continue;
    }
    dims.push_back({static_cast<int>(factors.factors.size())});
    factors.factors.push_back({"d" + std::to_string(d), shape[d], FactorKind::parallel});
  }
  const auto with_whole = [&](const ir::TensorType& type, const std::string& name) {
    DimFactors own = dims;
    own[static_cast<size_t>(dim)] = {static_cast<int>(factors.factors.size())};
    factors.factors.push_back({name, type.dim(dim), FactorKind::replicated});
    return own;
  };
  for (size_t i = 0; i < view.operands.size(); ++i)
    factors.operands.push_back(with_whole(view.operands[i], "operand" + std::to_string(i)));
  factors.results.push_back(with_whole(view.results[0], "result"));
  return factors;
}

// The common refinement of two shapes of equal size: factors so that every dimension of both is a run of factors. Where
// sizes do not nest (6 = 2x3 against 4x...), the rest is kept whole.
class Refinement {
 public:
  Refinement(const Shape& from, const Shape& to) : from_(from), to_(to), from_dims_(from.size()), to_dims_(to.size()) {}

  Factors run() {
    size_t i = 0, j = 0;
    int64_t left_i = next(from_, i), left_j = next(to_, j);
    while (i < from_.size() && j < to_.size()) {
      const int64_t small = std::min(left_i, left_j);
      if (std::max(left_i, left_j) % small != 0) {
        keep_rest_whole(i, left_i, from_, from_dims_);
        keep_rest_whole(j, left_j, to_, to_dims_);
        break;
      }
      const int factor = add(small, FactorKind::parallel);
      from_dims_[i].push_back(factor);
      to_dims_[j].push_back(factor);
      left_i /= small;
      left_j /= small;
      if (left_i == 1) left_i = next(from_, ++i);
      if (left_j == 1) left_j = next(to_, ++j);
    }
    factors_.operands = {from_dims_};
    factors_.results = {to_dims_};
    return factors_;
  }

 private:
  // Skips dimensions of size one; they have no factors.
  static int64_t next(const Shape& shape, size_t& d) {
    while (d < shape.size() && shape[d] == 1) ++d;
    return d < shape.size() ? shape[d] : 1;
  }

  int add(int64_t size, FactorKind kind) {
    factors_.factors.push_back({"f" + std::to_string(factors_.factors.size()), size, kind});
    return static_cast<int>(factors_.factors.size()) - 1;
  }

  void keep_rest_whole(size_t d, int64_t left, const Shape& shape, DimFactors& dims) {
    for (; d < shape.size(); left = next(shape, ++d))
      if (left > 1) dims[d].push_back(add(left, FactorKind::replicated));
  }

  const Shape& from_;
  const Shape& to_;
  DimFactors from_dims_;
  DimFactors to_dims_;
  Factors factors_;
};

}  // namespace

OpDef broadcast_def() {
  OpDef def;
  def.name = "broadcast";
  def.doc = "repeats the operand; operand dimension i becomes result dimension dims[i]";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const Shape& shape = attrs.list("shape");
    const auto& dims = attrs.list("dims");
    require_operand_count("broadcast", operands, 1);
    bool fits = dims.size() == operands[0].shape.size();
    for (size_t i = 0; fits && i < dims.size(); ++i)
      fits = dims[i] >= 0 && dims[i] < static_cast<int64_t>(shape.size()) && (i == 0 || dims[i - 1] < dims[i]) &&
             operands[0].shape[i] == shape[static_cast<size_t>(dims[i])];
    MEGACPP_REQUIRE(fits, E1301,
                    {.where = "broadcast",
                     .got = to_string(operands[0]) + " to " + ir::to_string(shape) + " along " + ir::to_string(dims),
                     .wanted = "ascending dims whose result sizes equal the operand's"});
    return Types{{operands[0].dtype, shape}};
  };
  def.factors = [](const NodeView& view) {
    Factors factors = elementwise_factors(view);
    factors.operands[0].clear();
    for (const int64_t dim : view.attrs.list("dims")) factors.operands[0].push_back({static_cast<int>(dim)});
    return factors;
  };
  def.grad = [](const GradArgs& args) {
    Builder& b = args.builder;
    const auto& kept = args.attrs.list("dims");
    std::vector<int64_t> repeated;
    for (int64_t d = 0; d < b.type(args.results[0]).rank(); ++d)
      if (std::find(kept.begin(), kept.end(), d) == kept.end()) repeated.push_back(d);
    return Cotangents{repeated.empty() ? *args.cotangents[0] : b.reduce_sum(*args.cotangents[0], repeated)};
  };
  def.linear = linear_together;
  def.cost = no_flops;
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
    const auto& dims = attrs.list("dims");
    int64_t i = 0;
    for_each_index(results[0].type.shape, [&](const Shape& index) {
      Shape source;
      for (const int64_t dim : dims) source.push_back(index[static_cast<size_t>(dim)]);
      results[0][i++] = operands[0][flat_index(source, operands[0].type.shape)];
    });
  };
  def.fusion = Fusion::broadcast;
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    return HloResults{w.broadcast(args.operands[0], args.result().shape, args.attrs().list("dims"))};
  };
  def.samples = [] {
    const auto sample = [](Shape from, Shape to, std::vector<int64_t> dims) {
      return one_sample(std::move(from), {{"shape", std::move(to)}, {"dims", std::move(dims)}})[0];
    };
    return std::vector<Sample>{sample({}, {2, 3}, {}), sample({4}, {2, 4}, {1}), sample({2, 4}, {2, 3, 4}, {0, 2})};
  };
  return def;
}

OpDef reshape_def() {
  OpDef def;
  def.name = "reshape";
  def.doc = "the same elements in row-major order under another shape; free";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const Shape& shape = attrs.list("shape");
    require_operand_count("reshape", operands, 1);
    MEGACPP_REQUIRE(operands[0].elements() == ir::num_elements(shape), E1301,
                    {.where = "reshape",
                     .got = to_string(operands[0]) + " to " + ir::to_string(shape),
                     .wanted = "equal numbers of elements"});
    return Types{{operands[0].dtype, shape}};
  };
  def.factors = [](const NodeView& view) { return Refinement(view.operands[0].shape, view.results[0].shape).run(); };
  def.grad = [](const GradArgs& args) {
    return Cotangents{args.builder.reshape(*args.cotangents[0], args.builder.shape(args.operands[0]))};
  };
  def.linear = linear_together;
  def.cost = no_flops;
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
    results[0].data = operands[0].data;
  };
  def.may_alias = 0;
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    return HloResults{w.reshape(args.operands[0], args.result().shape)};
  };
  def.samples = [] {
    const auto sample = [](Shape from, Shape to) { return one_sample(std::move(from), {{"shape", std::move(to)}})[0]; };
    return std::vector<Sample>{sample({4, 6}, {24}), sample({2, 12}, {2, 3, 4}), sample({6}, {1, 2, 3}),
                               sample({4, 6}, {6, 4})};
  };
  def.is_view = true;
  def.keeps_order = true;
  def.has_operand_elements = true;
  return def;
}

OpDef transpose_def() {
  OpDef def;
  def.name = "transpose";
  def.doc = "result dimension i is operand dimension permutation[i]";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_operand_count("transpose", operands, 1);
    const auto& permutation = attrs.list("permutation");
    std::vector<int64_t> sorted = permutation, wanted(operands[0].shape.size());
    std::sort(sorted.begin(), sorted.end());
    std::iota(wanted.begin(), wanted.end(), int64_t{0});
    MEGACPP_REQUIRE(sorted == wanted, E1301,
                    {.where = "transpose",
                     .got = ir::to_string(permutation),
                     .wanted = "a permutation of " + ir::to_string(wanted)});
    Shape shape;
    for (const int64_t dim : permutation) shape.push_back(operands[0].dim(dim));
    return Types{{operands[0].dtype, shape}};
  };
  def.factors = [](const NodeView& view) {
    Factors factors = elementwise_factors(view);
    const auto& permutation = view.attrs.list("permutation");
    for (size_t i = 0; i < permutation.size(); ++i)
      factors.operands[0][static_cast<size_t>(permutation[i])] = {static_cast<int>(i)};
    return factors;
  };
  def.grad = [](const GradArgs& args) {
    const auto& permutation = args.attrs.list("permutation");
    std::vector<int64_t> inverse(permutation.size());
    for (size_t i = 0; i < permutation.size(); ++i)
      inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
    return Cotangents{args.builder.transpose(*args.cotangents[0], inverse)};
  };
  def.linear = linear_together;
  def.cost = no_flops;
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
    const auto& permutation = attrs.list("permutation");
    int64_t i = 0;
    for_each_index(results[0].type.shape, [&](const Shape& index) {
      Shape source(index.size());
      for (size_t d = 0; d < index.size(); ++d) source[static_cast<size_t>(permutation[d])] = index[d];
      results[0][i++] = operands[0][flat_index(source, operands[0].type.shape)];
    });
  };
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    return HloResults{w.transpose(args.operands[0], args.attrs().list("permutation"))};
  };
  def.samples = [] {
    const auto sample = [](Shape shape, std::vector<int64_t> permutation) {
      return one_sample(std::move(shape), {{"permutation", std::move(permutation)}})[0];
    };
    return std::vector<Sample>{sample({3, 4}, {1, 0}), sample({2, 3, 4}, {0, 2, 1}),
                               sample({2, 3, 4, 2}, {2, 0, 3, 1})};
  };
  def.has_operand_elements = true;
  return def;
}

OpDef slice_def() {
  OpDef def;
  def.name = "slice";
  def.doc = "elements start .. start+size-1 along dimension dim";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const int64_t dim = attrs.integer("dim"), start = attrs.integer("start"), size = attrs.integer("size");
    require_operand_count("slice", operands, 1);
    require_dim("slice", dim, operands[0].shape);
    MEGACPP_REQUIRE(start >= 0 && size >= 0 && start + size <= operands[0].dim(dim), E1301,
                    {.where = "slice",
                     .got = "[" + std::to_string(start) + ", +" + std::to_string(size) + ") of " +
                            to_string(operands[0]) + " along " + std::to_string(dim),
                     .wanted = "a range inside the dimension"});
    ir::TensorType type = operands[0];
    type.shape[static_cast<size_t>(dim)] = size;
    return Types{type};
  };
  def.factors = [](const NodeView& view) { return whole_along(view, view.attrs.integer("dim")); };
  def.grad = [](const GradArgs& args) {
    Builder& b = args.builder;
    const int64_t dim = args.attrs.integer("dim"), start = args.attrs.integer("start");
    const int64_t after = b.type(args.operands[0]).dim(dim) - start - args.attrs.integer("size");
    return Cotangents{b.pad(*args.cotangents[0], dim, start, after)};
  };
  def.linear = linear_together;
  def.cost = no_flops;
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
    const size_t dim = static_cast<size_t>(attrs.integer("dim"));
    int64_t i = 0;
    for_each_index(results[0].type.shape, [&](Shape index) {
      index[dim] += attrs.integer("start");
      results[0][i++] = operands[0][flat_index(index, operands[0].type.shape)];
    });
  };
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    const ir::Attrs& attrs = args.attrs();
    return HloResults{w.slice(args.operands[0], attrs.integer("dim"), attrs.integer("start"), attrs.integer("size"))};
  };
  def.samples = [] {
    const auto sample = [](int64_t dim, int64_t start, int64_t size) {
      return one_sample({4, 6}, {{"dim", dim}, {"start", start}, {"size", size}})[0];
    };
    return std::vector<Sample>{sample(0, 1, 2), sample(1, 2, 4), sample(1, 0, 3)};
  };
  def.keeps_order = true;
  def.has_operand_elements = true;
  return def;
}

OpDef pad_def() {
  OpDef def;
  def.name = "pad";
  def.doc = "adds low and high elements of `value` around dimension dim";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    const int64_t dim = attrs.integer("dim"), low = attrs.integer("low"), high = attrs.integer("high");
    require_operand_count("pad", operands, 1);
    require_dim("pad", dim, operands[0].shape);
    require_at_least("pad", attrs, "low", 0);
    require_at_least("pad", attrs, "high", 0);
    ir::TensorType type = operands[0];
    type.shape[static_cast<size_t>(dim)] += low + high;
    return Types{type};
  };
  def.factors = [](const NodeView& view) { return whole_along(view, view.attrs.integer("dim")); };
  def.grad = [](const GradArgs& args) {
    const int64_t dim = args.attrs.integer("dim");
    return Cotangents{args.builder.slice(*args.cotangents[0], dim, args.attrs.integer("low"),
                                         args.builder.type(args.operands[0]).dim(dim))};
  };
  def.linear = [](const NodeView& view) {
    return Linearity{view.attrs.real("value", 0.0) == 0.0 ? Linearity::Kind::together : Linearity::Kind::no};
  };
  def.cost = no_flops;
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
    const size_t dim = static_cast<size_t>(attrs.integer("dim"));
    for (double& element : results[0].data) element = attrs.real("value", 0.0);
    int64_t i = 0;
    for_each_index(operands[0].type.shape, [&](Shape index) {
      index[dim] += attrs.integer("low");
      results[0][flat_index(index, results[0].type.shape)] = operands[0][i++];
    });
  };
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    const ir::Attrs& attrs = args.attrs();
    return HloResults{w.pad(args.operands[0], attrs.integer("dim"), attrs.integer("low"), attrs.integer("high"),
                            attrs.real("value", 0.0))};
  };
  def.samples = [] {
    const auto sample = [](int64_t dim, int64_t low, int64_t high) {
      return one_sample({4, 3}, {{"dim", dim}, {"low", low}, {"high", high}, {"value", 0.5}})[0];
    };
    return std::vector<Sample>{sample(0, 1, 2), sample(1, 3, 0), sample(1, 0, 2)};
  };
  def.keeps_order = true;
  return def;
}

OpDef concatenate_def() {
  OpDef def;
  def.name = "concatenate";
  def.doc = "joins the operands along dimension dim";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_operands(!operands.empty(), "concatenate", operands, "one or more");
    require_dim("concatenate", attrs.integer("dim"), operands[0].shape);
    const size_t dim = static_cast<size_t>(attrs.integer("dim"));
    ir::TensorType type = operands[0];
    type.shape[dim] = 0;
    for (const ir::TensorType& operand : operands) {
      ir::TensorType rest = operand;
      if (operand.rank() == operands[0].rank()) rest.shape[dim] = operands[0].shape[dim];
      require_operands(rest == operands[0], "concatenate", operands,
                       "types equal but for dimension " + std::to_string(dim));
      type.shape[dim] += operand.shape[dim];
    }
    return Types{type};
  };
  def.factors = [](const NodeView& view) { return whole_along(view, view.attrs.integer("dim")); };
  def.grad = [](const GradArgs& args) {
    const int64_t dim = args.attrs.integer("dim");
    Cotangents parts;
    int64_t start = 0;
    for (const ir::ValueId operand : args.operands) {
      const int64_t size = args.builder.type(operand).dim(dim);
      parts.push_back(args.builder.slice(*args.cotangents[0], dim, start, size));
      start += size;
    }
    return parts;
  };
  def.linear = linear_together;
  def.cost = no_flops;
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
    const size_t dim = static_cast<size_t>(attrs.integer("dim"));
    int64_t start = 0;
    for (const Tensor& operand : operands) {
      int64_t i = 0;
      for_each_index(operand.type.shape, [&](Shape index) {
        index[dim] += start;
        results[0][flat_index(index, results[0].type.shape)] = operand[i++];
      });
      start += operand.type.shape[dim];
    }
  };
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    return HloResults{w.concatenate(args.operands, args.attrs().integer("dim"))};
  };
  def.samples = [] {
    const auto f32 = [](Shape shape) { return ir::TensorType{DType::f32, std::move(shape)}; };
    return std::vector<Sample>{
        {.name = "dim0", .operands = {f32({1, 4}), f32({2, 4})}, .attrs = {{"dim", int64_t{0}}}},
        {.name = "dim1", .operands = {f32({4, 3}), f32({4, 1}), f32({4, 2})}, .attrs = {{"dim", int64_t{1}}}}};
  };
  return def;
}

}  // namespace megacpp::ops
