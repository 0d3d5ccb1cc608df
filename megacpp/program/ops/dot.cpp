// SPDX-License-Identifier: Apache-2.0
// General product: batch dimensions pair up, contracted ones are summed, free ones remain (batch, lhs free, rhs free).
// An optional third operand is added to the product and gives its buffer to the result: gradient accumulation,
// residuals.
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/dot_dims.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

using ir::DType;
using ir::Shape;
using Dims = std::vector<int64_t>;

// Cotangent of one side: dy contracted with the other side over the other side's free dimensions. The product comes out
// as (batch, own free, own contracted); a transpose restores the side's own order unless it already is.
ir::ValueId side_cotangent(Builder& b, ir::ValueId side, const DotSide& own, ir::ValueId product,
                           const Dims& contracted_order) {
  Dims position(own.batch);
  position.insert(position.end(), own.free.begin(), own.free.end());
  position.insert(position.end(), contracted_order.begin(), contracted_order.end());
  // position[i] = dimension of `side` that product dimension i is; invert it.
  Dims permutation(position.size());
  bool identity = true;
  for (size_t i = 0; i < position.size(); ++i) {
    permutation[static_cast<size_t>(position[i])] = static_cast<int64_t>(i);
    identity = identity && position[i] == static_cast<int64_t>(i);
  }
  const ir::ValueId ordered = identity ? product : b.transpose(product, permutation);
  return b.convert(ordered, b.type(side).dtype);
}

// Contracted dimensions of `own` in the order the other side's contracted dimensions come out of a product (ascending).
Dims paired_order(const DotSide& own, const DotSide& other) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < own.contract.size(); ++i) pairs.emplace_back(other.contract[i], own.contract[i]);
  std::sort(pairs.begin(), pairs.end());
  Dims order;
  for (const auto& [_, mine] : pairs) order.push_back(mine);
  return order;
}

Dims sequence(size_t start, size_t count) {
  Dims dims;
  for (size_t i = 0; i < count; ++i) dims.push_back(static_cast<int64_t>(start + i));
  return dims;
}

Cotangents dot_grad(const GradArgs& args) {
  Builder& b = args.builder;
  const ir::ValueId lhs = args.operands[0], rhs = args.operands[1];
  const ir::ValueId dy = b.convert(*args.cotangents[0], b.type(lhs).dtype);  // a wide result has a wide cotangent
  const DotSides dims = dot_sides(args.attrs, b.type(lhs), b.type(rhs));
  const size_t batch = dims.lhs.batch.size();
  const Dims dy_batch = sequence(0, batch);
  const Dims dy_lhs = sequence(batch, dims.lhs.free.size());
  const Dims dy_rhs = sequence(batch + dims.lhs.free.size(), dims.rhs.free.size());
  const ir::ValueId lhs_product = b.dot(
      dy, rhs,
      {.lhs_contract = dy_rhs, .rhs_contract = dims.rhs.free, .lhs_batch = dy_batch, .rhs_batch = dims.rhs.batch});
  const ir::ValueId dlhs = side_cotangent(b, lhs, dims.lhs, lhs_product, paired_order(dims.lhs, dims.rhs));
  // lhs first, so that a weight gradient x^T dy comes out in the weight's own order.
  const ir::ValueId rhs_product = b.dot(
      lhs, dy,
      {.lhs_contract = dims.lhs.free, .rhs_contract = dy_lhs, .lhs_batch = dims.lhs.batch, .rhs_batch = dy_batch});
  DotSide as_product = dims.rhs;  // product order: batch, contracted (in lhs order), free
  Dims position(dims.rhs.batch);
  for (const int64_t d : paired_order(dims.rhs, dims.lhs)) position.push_back(d);
  as_product.free = Dims(position.begin() + static_cast<std::ptrdiff_t>(batch), position.end());
  const ir::ValueId drhs = side_cotangent(b, rhs, as_product, rhs_product, dims.rhs.free);
  return {dlhs, drhs};
}

Types dot_infer(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 2 || operands.size() == 3, "dot", operands, "lhs, rhs and perhaps an addend");
  for (const char* list : {"lhs_contract", "lhs_batch"})
    for (const int64_t dim : attrs.list(list)) require_dim("dot", dim, operands[0].shape);
  for (const char* list : {"rhs_contract", "rhs_batch"})
    for (const int64_t dim : attrs.list(list)) require_dim("dot", dim, operands[1].shape);
  const DotSides dims = dot_sides(attrs, operands[0], operands[1]);
  Shape shape;
  bool fits = operands[0].dtype == operands[1].dtype && dims.lhs.contract.size() == dims.rhs.contract.size() &&
              dims.lhs.batch.size() == dims.rhs.batch.size();
  for (size_t i = 0; fits && i < dims.lhs.contract.size(); ++i)
    fits = operands[0].dim(dims.lhs.contract[i]) == operands[1].dim(dims.rhs.contract[i]);
  for (size_t i = 0; fits && i < dims.lhs.batch.size(); ++i) {
    fits = operands[0].dim(dims.lhs.batch[i]) == operands[1].dim(dims.rhs.batch[i]);
    shape.push_back(operands[0].dim(dims.lhs.batch[i]));
  }
  require_operands(fits, "dot", operands, "equal dtypes and equal sizes of contracted and batch dimensions");
  for (const int64_t d : dims.lhs.free) shape.push_back(operands[0].dim(d));
  for (const int64_t d : dims.rhs.free) shape.push_back(operands[1].dim(d));
  if (operands.size() == 2)
    return {{attrs.has("dtype") ? require_dtype("dot", attrs.text("dtype")) : operands[0].dtype, shape}};
  require_type("dot", "addend", operands[2], {operands[2].dtype, shape});
  return {operands[2]};
}

Factors dot_factors(const NodeView& view) {
  const DotSides dims = dot_sides(view.attrs, view.operands[0], view.operands[1]);
  Factors factors;
  DimFactors lhs(view.operands[0].shape.size()), rhs(view.operands[1].shape.size()), result;
  const auto add = [&](const std::string& name, int64_t size, FactorKind kind) {
    factors.factors.push_back({name, size, kind});
    return static_cast<int>(factors.factors.size()) - 1;
  };
  for (size_t i = 0; i < dims.lhs.batch.size(); ++i) {
    const int f = add("b" + std::to_string(i), view.operands[0].dim(dims.lhs.batch[i]), FactorKind::parallel);
    lhs[static_cast<size_t>(dims.lhs.batch[i])] = rhs[static_cast<size_t>(dims.rhs.batch[i])] = {f};
    result.push_back({f});
  }
  for (const int64_t d : dims.lhs.free) {
    lhs[static_cast<size_t>(d)] = {add("m" + std::to_string(d), view.operands[0].dim(d), FactorKind::parallel)};
    result.push_back(lhs[static_cast<size_t>(d)]);
  }
  for (const int64_t d : dims.rhs.free) {
    rhs[static_cast<size_t>(d)] = {add("n" + std::to_string(d), view.operands[1].dim(d), FactorKind::parallel)};
    result.push_back(rhs[static_cast<size_t>(d)]);
  }
  for (size_t i = 0; i < dims.lhs.contract.size(); ++i) {
    // With an addend, partial sums would add it once per part: the contraction stays whole.
    const FactorKind kind = view.operands.size() == 3 ? FactorKind::replicated : FactorKind::reduction;
    const int f = add("k" + std::to_string(i), view.operands[0].dim(dims.lhs.contract[i]), kind);
    lhs[static_cast<size_t>(dims.lhs.contract[i])] = rhs[static_cast<size_t>(dims.rhs.contract[i])] = {f};
  }
  factors.operands = {lhs, rhs};
  if (view.operands.size() == 3) factors.operands.push_back(result);
  factors.results = {result};
  return factors;
}

void dot_reference(std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs& attrs) {
  const DotSides dims = dot_sides(attrs, operands[0].type, operands[1].type);
  Shape contracted;
  for (const int64_t d : dims.lhs.contract) contracted.push_back(operands[0].type.dim(d));
  int64_t i = 0;
  for_each_index(results[0].type.shape, [&](const Shape& out) {
    Shape l(operands[0].type.shape.size()), r(operands[1].type.shape.size());
    size_t at = 0;
    for (size_t d = 0; d < dims.lhs.batch.size(); ++d, ++at)
      l[static_cast<size_t>(dims.lhs.batch[d])] = r[static_cast<size_t>(dims.rhs.batch[d])] = out[at];
    for (const int64_t d : dims.lhs.free) l[static_cast<size_t>(d)] = out[at++];
    for (const int64_t d : dims.rhs.free) r[static_cast<size_t>(d)] = out[at++];
    double sum = operands.size() == 3 ? operands[2][i] : 0.0;
    for_each_index(contracted, [&](const Shape& k) {
      for (size_t d = 0; d < k.size(); ++d)
        l[static_cast<size_t>(dims.lhs.contract[d])] = r[static_cast<size_t>(dims.rhs.contract[d])] = k[d];
      sum += operands[0][flat_index(l, operands[0].type.shape)] * operands[1][flat_index(r, operands[1].type.shape)];
    });
    results[0][i++] = sum;
  });
}

Sample dot_sample(std::string name, Shape lhs, Shape rhs, Builder::DotDims dims) {
  return {.name = std::move(name),
          .operands = {{DType::f32, std::move(lhs)}, {DType::f32, std::move(rhs)}},
          .attrs = {{"lhs_contract", dims.lhs_contract},
                    {"rhs_contract", dims.rhs_contract},
                    {"lhs_batch", dims.lhs_batch},
                    {"rhs_batch", dims.rhs_batch}}};
}

// As of a dot whose left side has been widened.
Types mixed_dot_infer(const Types& operands, const ir::Attrs& attrs) {
  require_operands(operands.size() == 2 && ir::is_narrow(operands[0].dtype) && operands[1].dtype == DType::f32,
                   "mixed_dot", operands, "a narrow lhs and rhs in f32");
  return dot_infer({{DType::f32, operands[0].shape}, operands[1]}, attrs);
}

Cost dot_cost(const NodeView& view) {
  double k = 1;
  for (const int64_t d : view.attrs.list("lhs_contract")) k *= static_cast<double>(view.operands[0].dim(d));
  return Cost{2.0 * k * static_cast<double>(view.results[0].elements())};
}

std::vector<Sample> samples_of_dot() {
  std::vector<Sample> samples = {
      dot_sample("matmul", {4, 6}, {6, 2}, {.lhs_contract = {1}, .rhs_contract = {0}}),
      dot_sample("rank3", {2, 3, 4}, {4, 5}, {.lhs_contract = {2}, .rhs_contract = {0}}),
      dot_sample("transposed", {6, 4}, {2, 6}, {.lhs_contract = {0}, .rhs_contract = {1}}),
      dot_sample("two_contracted", {2, 3, 4}, {2, 3, 5}, {.lhs_contract = {0, 1}, .rhs_contract = {0, 1}}),
      dot_sample("batched", {2, 3, 4}, {2, 4, 5},
                 {.lhs_contract = {2}, .rhs_contract = {1}, .lhs_batch = {0}, .rhs_batch = {0}}),
      dot_sample("batch_inside", {3, 2, 4}, {5, 2, 4},
                 {.lhs_contract = {2}, .rhs_contract = {2}, .lhs_batch = {1}, .rhs_batch = {1}}),
      dot_sample("heads", {2, 3, 4, 2}, {2, 5, 4, 2},
                 {.lhs_contract = {3}, .rhs_contract = {3}, .lhs_batch = {0, 2}, .rhs_batch = {0, 2}})};
  Sample accumulated = samples[0];
  accumulated.name = "accumulated";
  accumulated.operands.push_back({DType::f32, {4, 2}});
  samples.push_back(std::move(accumulated));
  // A sum in the operands' own dtype, of matrices, of transposed sides, and of batches.
  for (const size_t like : {size_t{1}, size_t{2}, size_t{4}}) {
    Sample sum = samples[like];
    sum.name += "_accumulated";
    for (ir::TensorType& operand : sum.operands) operand.dtype = DType::bf16;
    sum.operands.push_back(dot_infer(sum.operands, sum.attrs)[0]);
    samples.push_back(std::move(sum));
  }
  Sample wide = samples[0];
  wide.name = "wide_result";
  for (ir::TensorType& operand : wide.operands) operand.dtype = DType::bf16;
  wide.attrs.set("dtype", std::string("f32"));
  samples.push_back(std::move(wide));
  return samples;
}

}  // namespace

DotSides dot_sides(const ir::Attrs& attrs, const ir::TensorType& lhs, const ir::TensorType& rhs) {
  const auto side = [](const Dims& contract, const Dims& batch, const ir::TensorType& type) {
    DotSide result{.batch = batch, .contract = contract, .free = {}};
    for (int64_t d = 0; d < type.rank(); ++d)
      if (std::find(contract.begin(), contract.end(), d) == contract.end() &&
          std::find(batch.begin(), batch.end(), d) == batch.end())
        result.free.push_back(d);
    return result;
  };
  return {side(attrs.list("lhs_contract"), attrs.list("lhs_batch"), lhs),
          side(attrs.list("rhs_contract"), attrs.list("rhs_batch"), rhs)};
}

OpDef dot_def() {
  OpDef def;
  def.name = "dot";
  def.doc = "general matrix product with batch and contracted dimensions; an optional third operand is added";
  def.infer = dot_infer;
  def.factors = dot_factors;
  def.grad = [](const GradArgs& args) {
    Cotangents cotangents = dot_grad(args);
    if (args.operands.size() == 3) cotangents.push_back(args.cotangents[0]);
    return cotangents;
  };
  // An addend would be added once per chip.
  def.linear = [](const NodeView& view) {
    return Linearity{view.operands.size() == 2 ? Linearity::Kind::each : Linearity::Kind::no};
  };
  def.cost = dot_cost;
  def.work = Work::product;
  def.reference = dot_reference;
  def.may_alias = 2;
  def.addend = 2;
  def.chooses_result_dtype = true;
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    const ir::Attrs& attrs = args.attrs();
    const HloValue product = w.dot(args.operands[0], args.operands[1],
                                   {.lhs_batch = attrs.list("lhs_batch"),
                                    .rhs_batch = attrs.list("rhs_batch"),
                                    .lhs_contract = attrs.list("lhs_contract"),
                                    .rhs_contract = attrs.list("rhs_contract")},
                                   args.result().element);
    return HloResults{args.operands.size() == 3 ? w.binary("add", args.operands[2], product) : product};
  };
  def.samples = samples_of_dot;
  return def;
}

OpDef mixed_dot_def() {
  OpDef def;
  def.name = "mixed_dot";
  def.doc = "dot of a bf16 left side with an f32 right side, in f32: the left side is widened as it is read";
  def.infer = mixed_dot_infer;
  def.factors = dot_factors;
  def.no_grad = "made by the scheduler, after gradients are taken";
  def.linear = linear_in_each;
  def.cost = dot_cost;
  def.work = Work::product;
  def.reference = dot_reference;
  def.decompose = [](Builder& b, const std::vector<ir::ValueId>& operands, const ir::Attrs& attrs) {
    return b.node("dot", {b.convert(operands[0], DType::f32), operands[1]}, attrs);
  };
  def.samples = [] {
    std::vector<Sample> samples = {
        dot_sample("rows", {2, 3, 16}, {16, 5}, {.lhs_contract = {2}, .rhs_contract = {0}}),
        dot_sample("sums", {2, 3, 8}, {2, 3, 5}, {.lhs_contract = {0, 1}, .rhs_contract = {0, 1}}),
        dot_sample("odd", {4, 6}, {2, 6}, {.lhs_contract = {1}, .rhs_contract = {1}})};
    for (Sample& sample : samples) sample.operands[0].dtype = DType::bf16;
    return samples;
  };
  return def;
}

}  // namespace megacpp::ops
