// SPDX-License-Identifier: Apache-2.0
// Ops without operands: graph inputs, constants, index counters.
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/partition_rule.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

Types infer_from_attrs(std::string_view op, const Types& operands, const ir::Attrs& attrs) {
  require_operand_count(op, operands, 0);
  return {{require_dtype(op, attrs.text("dtype")), attrs.list("shape")}};
}

OpDef source(std::string name, std::string doc) {
  OpDef def;
  def.name = name;
  def.doc = std::move(doc);
  def.infer = [name](const Types& operands, const ir::Attrs& attrs) { return infer_from_attrs(name, operands, attrs); };
  def.factors = elementwise_factors;
  def.no_grad = "has no operands";
  def.cost = [](const NodeView&) { return Cost{}; };
  return def;
}

// Counts on from where the chip's part begins.
std::vector<PartitionedResult> partition_iota(PartitionContext& context) {
  const int64_t dim = context.view().attrs.integer("dim");
  if (context.requested() == nullptr || context.requested()->dims[static_cast<size_t>(dim)].empty()) return {};
  const ir::Sharding sharding{.dims = context.requested()->dims};
  Builder& b = context.builder();
  const ir::TensorType& whole = context.view().results[0];
  const ir::Shape shape = ir::local_shape(whole.shape, sharding, context.mesh());
  const ir::Axes& axes = sharding.dims[static_cast<size_t>(dim)];
  const RuntimeRange range = runtime_range(b, whole.dim(dim), axes, context.mesh());
  const ir::ValueId counted = b.iota(shape, dim, whole.dtype);
  const ir::ValueId first = b.broadcast(b.convert(range.first, whole.dtype), shape, {});
  return {{b.add(counted, first), sharding}};
}

}  // namespace

OpDef input_def() {
  OpDef def = source("input", "a tensor handed to the program: name, dtype, shape");
  def.reference = [](std::span<const Tensor>, std::span<Tensor>, const ir::Attrs&) {};  // the evaluator binds inputs
  def.samples = [] {
    return std::vector<Sample>{
        {.name = "named",
         .operands = {},
         .attrs = {{"name", std::string("x")}, {"dtype", std::string("f32")}, {"shape", std::vector<int64_t>{2, 3}}}}};
  };
  return def;
}

OpDef constant_def() {
  OpDef def = source("constant", "a tensor filled with one number");
  def.reference = [](std::span<const Tensor>, std::span<Tensor> results, const ir::Attrs& attrs) {
    for (double& element : results[0].data) element = attrs.real("value");
  };
  def.fusion = Fusion::broadcast;
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    return HloResults{w.constant(args.attrs().real("value"), args.result())};
  };
  def.samples = [] {
    return std::vector<Sample>{
        {.name = "half",
         .operands = {},
         .attrs = {{"value", 0.5}, {"dtype", std::string("f32")}, {"shape", std::vector<int64_t>{2, 4}}}}};
  };
  return def;
}

OpDef iota_def() {
  OpDef def = source("iota", "element index along dimension dim");
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_dim("iota", attrs.integer("dim"), attrs.list("shape"));
    return infer_from_attrs("iota", operands, attrs);
  };
  // A split along `dim` would restart the count: that dimension stays whole, the others may be cut.
  def.factors = [](const NodeView& view) {
    Factors factors = elementwise_factors(view);
    factors.factors[static_cast<size_t>(view.attrs.integer("dim"))].kind = FactorKind::replicated;
    return factors;
  };
  def.partition = partition_iota;
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    return HloResults{w.iota(args.result(), args.attrs().integer("dim"))};
  };
  def.reference = [](std::span<const Tensor>, std::span<Tensor> results, const ir::Attrs& attrs) {
    const size_t dim = static_cast<size_t>(attrs.integer("dim"));
    int64_t i = 0;
    for_each_index(results[0].type.shape,
                   [&](const ir::Shape& index) { results[0][i++] = static_cast<double>(index[dim]); });
  };
  def.samples = [] {
    const auto sample = [](int64_t dim) {
      return Sample{.name = "dim" + std::to_string(dim),
                    .operands = {},
                    .attrs = {{"dim", dim}, {"dtype", std::string("i32")}, {"shape", std::vector<int64_t>{2, 3, 4}}}};
    };
    return std::vector<Sample>{sample(0), sample(1), sample(2)};
  };
  return def;
}

}  // namespace megacpp::ops
