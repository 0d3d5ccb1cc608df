// SPDX-License-Identifier: Apache-2.0
// Appends nodes to a graph, inferring result types from the op's record. The named functions below are the vocabulary
// in which blocks, gradients and optimizers are written; each appends one node (or, where noted, a few).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/graph.h"

namespace megacpp::ops {

using ir::ValueId;

// Arguments that append nodes must not share a call: C++ does not order them; name them first.
class Builder {
 public:
  explicit Builder(ir::Graph& graph) : graph_(graph) {}

  ir::Graph& graph() { return graph_; }
  const ir::TensorType& type(ValueId id) const { return graph_.type(id); }
  const ir::Shape& shape(ValueId id) const { return graph_.type(id).shape; }

  /// Appends `op` and returns all its results.
  std::vector<ValueId> node(std::string_view op, std::vector<ValueId> operands, ir::Attrs attrs = {});
  /// The same for an op with one result.
  ValueId one(std::string_view op, std::vector<ValueId> operands, ir::Attrs attrs = {});

  // Where the nodes appended from now on belong. See Scope for the guarded form.
  const std::string& scope() const { return scope_; }
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  void set_role(ir::Role role) { role_ = role; }

  /// `sharding` is the text of its sharding (see partition/partition.h); empty: whole on every chip.
  ValueId input(std::string name, ir::TensorType type, ir::Role role, std::string sharding = "");
  /// A constant filled with one number.
  ValueId constant(double value, ir::Shape shape = {}, ir::DType dtype = ir::DType::f32);
  ValueId constant_like(double value, ValueId like);
  /// The index along `dim`: counted once along that dimension and broadcast, so that fusing leaves no tensor of the
  /// whole shape.
  ValueId iota(ir::Shape shape, int64_t dim, ir::DType dtype = ir::DType::i32);

  // Elementwise: operands of equal type, or a scalar, which is broadcast for you.
  ValueId add(ValueId a, ValueId b) { return binary("add", a, b); }
  ValueId sub(ValueId a, ValueId b) { return binary("sub", a, b); }
  ValueId mul(ValueId a, ValueId b) { return binary("mul", a, b); }
  ValueId div(ValueId a, ValueId b) { return binary("div", a, b); }
  ValueId max(ValueId a, ValueId b) { return binary("max", a, b); }
  ValueId min(ValueId a, ValueId b) { return binary("min", a, b); }
  ValueId unary(std::string_view op, ValueId a) { return one(op, {a}); }
  ValueId neg(ValueId a) { return unary("neg", a); }
  ValueId exp(ValueId a) { return unary("exp", a); }
  ValueId log(ValueId a) { return unary("log", a); }
  ValueId sqrt(ValueId a) { return unary("sqrt", a); }
  ValueId rsqrt(ValueId a) { return unary("rsqrt", a); }
  ValueId tanh(ValueId a) { return unary("tanh", a); }
  ValueId logistic(ValueId a) { return unary("logistic", a); }
  ValueId log1p(ValueId a) { return unary("log1p", a); }
  ValueId silu(ValueId a) { return mul(a, logistic(a)); }  // two nodes
  ValueId softplus(ValueId a);                             // a few nodes: max(a,0) + log1p(exp(-|a|))
  ValueId scale(ValueId a, double factor) { return mul(a, constant(factor, {}, type(a).dtype)); }
  ValueId offset(ValueId a, double amount) { return add(a, constant(amount, {}, type(a).dtype)); }
  ValueId square(ValueId a) { return mul(a, a); }
  /// direction: "lt", "le", "gt", "ge", "eq", "ne"; the result is pred.
  ValueId compare(ValueId a, ValueId b, std::string_view direction);
  ValueId select(ValueId predicate, ValueId on_true, ValueId on_false);
  ValueId convert(ValueId a, ir::DType dtype);  // no node when the dtype is already right

  // Layout.
  /// dims[i] is the result dimension that operand dimension i becomes.
  ValueId broadcast(ValueId a, ir::Shape shape, std::vector<int64_t> dims);
  ValueId reshape(ValueId a, ir::Shape shape);  // no node when the shape is already right
  ValueId transpose(ValueId a, std::vector<int64_t> permutation);
  ValueId slice(ValueId a, int64_t dim, int64_t start, int64_t size);  // no node when it takes all
  ValueId pad(ValueId a, int64_t dim, int64_t low, int64_t high, double value = 0.0);
  ValueId concatenate(std::vector<ValueId> parts, int64_t dim);

  // Reductions and products.
  ValueId reduce_sum(ValueId a, std::vector<int64_t> dims);
  ValueId reduce_max(ValueId a, std::vector<int64_t> dims);
  ValueId sum_all(ValueId a);
  struct DotDims {
    std::vector<int64_t> lhs_contract, rhs_contract, lhs_batch = {}, rhs_batch = {};
  };
  /// Result dimensions: batch, then the free ones of lhs, then those of rhs.
  ValueId dot(ValueId lhs, ValueId rhs, const DotDims& dims);
  /// The same with an f32 result, whatever is multiplied.
  ValueId wide_dot(ValueId lhs, ValueId rhs, const DotDims& dims);
  /// [.., k] x [k, n] -> [.., n]
  ValueId matmul(ValueId lhs, ValueId rhs);
  ValueId cumsum(ValueId a, int64_t dim, bool reverse = false);

 private:
  ValueId binary(std::string_view op, ValueId a, ValueId b);

  ir::Graph& graph_;
  std::string scope_;
  ir::Role role_ = ir::Role::temporary;
};

/// Appends to the builder's scope for the lifetime of this object: Scope s(b, "ssd") in "block07.M" is "block07.M.ssd".
class Scope {
 public:
  Scope(Builder& builder, std::string_view part) : builder_(builder), saved_(builder.scope()) {
    builder_.set_scope(saved_.empty() ? std::string(part) : saved_ + "." + std::string(part));
  }
  ~Scope() { builder_.set_scope(saved_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Builder& builder_;
  std::string saved_;
};

}  // namespace megacpp::ops
