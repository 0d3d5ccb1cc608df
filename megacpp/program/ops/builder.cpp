// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/builder.h"

#include <numeric>

#include "megacpp/core/base/error.h"
#include "megacpp/program/ops/op_def.h"

namespace megacpp::ops {

std::vector<ValueId> Builder::node(std::string_view op, std::vector<ValueId> operands, ir::Attrs attrs) {
  ir::Node node{.op = std::string(op),
                .operands = std::move(operands),
                .results = {},
                .attrs = std::move(attrs),
                .scope = scope_,
                .role = role_};
  Types types = op_def(op).infer(graph_.operand_types(node), node.attrs);
  return graph_.node(graph_.append(std::move(node), std::move(types))).results;
}

ValueId Builder::one(std::string_view op, std::vector<ValueId> operands, ir::Attrs attrs) {
  const std::vector<ValueId> results = node(op, std::move(operands), std::move(attrs));
  MEGACPP_CHECK(results.size() == 1) << op << " has " << results.size() << " results";
  return results[0];
}

ValueId Builder::input(std::string name, ir::TensorType type, ir::Role role, std::string sharding) {
  const ir::Role saved = std::exchange(role_, role);
  ir::Attrs attrs = {
      {"name", std::move(name)}, {"dtype", std::string(ir::dtype_name(type.dtype))}, {"shape", type.shape}};
  if (!sharding.empty()) attrs.set("sharding", std::move(sharding));
  const ValueId value = one("input", {}, std::move(attrs));
  role_ = saved;
  return value;
}

ValueId Builder::constant(double value, ir::Shape shape, ir::DType dtype) {
  return one("constant", {},
             {{"value", value}, {"shape", std::move(shape)}, {"dtype", std::string(ir::dtype_name(dtype))}});
}

ValueId Builder::constant_like(double value, ValueId like) { return constant(value, shape(like), type(like).dtype); }

ValueId Builder::iota(ir::Shape shape, int64_t dim, ir::DType dtype) {
  const int64_t size = shape.at(static_cast<size_t>(dim));
  const ValueId counted =
      one("iota", {}, {{"shape", ir::Shape{size}}, {"dim", int64_t{0}}, {"dtype", std::string(ir::dtype_name(dtype))}});
  return shape.size() == 1 ? counted : broadcast(counted, std::move(shape), {dim});
}

ValueId Builder::binary(std::string_view op, ValueId a, ValueId b) {
  if (shape(a) != shape(b)) {
    if (shape(b).empty())
      b = broadcast(b, shape(a), {});
    else if (shape(a).empty())
      a = broadcast(a, shape(b), {});
  }
  return one(op, {a, b});
}

ValueId Builder::softplus(ValueId a) {
  const ValueId positive = max(a, constant(0.0, {}, type(a).dtype));
  return add(positive, log1p(exp(neg(unary("abs", a)))));
}

ValueId Builder::compare(ValueId a, ValueId b, std::string_view direction) {
  if (shape(b).empty() && !shape(a).empty()) b = broadcast(b, shape(a), {});
  if (shape(a).empty() && !shape(b).empty()) a = broadcast(a, shape(b), {});
  return one("compare", {a, b}, {{"direction", std::string(direction)}});
}

ValueId Builder::select(ValueId predicate, ValueId on_true, ValueId on_false) {
  if (shape(predicate).empty() && !shape(on_true).empty()) predicate = broadcast(predicate, shape(on_true), {});
  if (shape(predicate).empty() && !shape(on_false).empty()) predicate = broadcast(predicate, shape(on_false), {});
  if (shape(on_true).empty() && !shape(predicate).empty()) on_true = broadcast(on_true, shape(predicate), {});
  if (shape(on_false).empty() && !shape(predicate).empty()) on_false = broadcast(on_false, shape(predicate), {});
  return one("select", {predicate, on_true, on_false});
}

ValueId Builder::convert(ValueId a, ir::DType dtype) {
  if (type(a).dtype == dtype) return a;
  return one("convert", {a}, {{"dtype", std::string(ir::dtype_name(dtype))}});
}

ValueId Builder::broadcast(ValueId a, ir::Shape shape, std::vector<int64_t> dims) {
  return one("broadcast", {a}, {{"shape", std::move(shape)}, {"dims", std::move(dims)}});
}

ValueId Builder::reshape(ValueId a, ir::Shape shape) {
  if (this->shape(a) == shape) return a;
  return one("reshape", {a}, {{"shape", std::move(shape)}});
}

ValueId Builder::transpose(ValueId a, std::vector<int64_t> permutation) {
  return one("transpose", {a}, {{"permutation", std::move(permutation)}});
}

ValueId Builder::slice(ValueId a, int64_t dim, int64_t start, int64_t size) {
  if (dim < 0) dim += type(a).rank();
  if (start == 0 && size == type(a).dim(dim)) return a;
  return one("slice", {a}, {{"dim", dim}, {"start", start}, {"size", size}});
}

ValueId Builder::pad(ValueId a, int64_t dim, int64_t low, int64_t high, double value) {
  if (dim < 0) dim += type(a).rank();
  if (low == 0 && high == 0) return a;
  return one("pad", {a}, {{"dim", dim}, {"low", low}, {"high", high}, {"value", value}});
}

ValueId Builder::concatenate(std::vector<ValueId> parts, int64_t dim) {
  if (dim < 0) dim += type(parts.at(0)).rank();
  if (parts.size() == 1) return parts[0];
  return one("concatenate", std::move(parts), {{"dim", dim}});
}

ValueId Builder::reduce_sum(ValueId a, std::vector<int64_t> dims) {
  return one("reduce", {a}, {{"dims", std::move(dims)}, {"kind", std::string("sum")}});
}

ValueId Builder::reduce_max(ValueId a, std::vector<int64_t> dims) {
  return one("reduce", {a}, {{"dims", std::move(dims)}, {"kind", std::string("max")}});
}

ValueId Builder::sum_all(ValueId a) {
  std::vector<int64_t> dims(shape(a).size());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  return reduce_sum(a, std::move(dims));
}

namespace {

ir::Attrs attrs_of(const Builder::DotDims& dims) {
  return {{"lhs_contract", dims.lhs_contract},
          {"rhs_contract", dims.rhs_contract},
          {"lhs_batch", dims.lhs_batch},
          {"rhs_batch", dims.rhs_batch}};
}

}  // namespace

ValueId Builder::dot(ValueId lhs, ValueId rhs, const DotDims& dims) { return one("dot", {lhs, rhs}, attrs_of(dims)); }

ValueId Builder::wide_dot(ValueId lhs, ValueId rhs, const DotDims& dims) {
  ir::Attrs attrs = attrs_of(dims);
  if (type(lhs).dtype != ir::DType::f32) attrs.set("dtype", std::string("f32"));
  return one("dot", {lhs, rhs}, attrs);
}

ValueId Builder::matmul(ValueId lhs, ValueId rhs) {
  return dot(lhs, rhs, {.lhs_contract = {type(lhs).rank() - 1}, .rhs_contract = {0}});
}

ValueId Builder::cumsum(ValueId a, int64_t dim, bool reverse) {
  if (dim < 0) dim += type(a).rank();
  return one("cumsum", {a}, {{"dim", dim}, {"reverse", int64_t{reverse}}});
}

}  // namespace megacpp::ops
