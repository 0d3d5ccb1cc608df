// SPDX-License-Identifier: Apache-2.0
// Where the spread of a value over the mesh changes. The program means the same without it; the partitioner replaces it
// by slices and collectives.
#include "megacpp/program/ops/builder.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {

OpDef reshard_def() {
  OpDef def;
  def.name = "reshard";
  def.doc = "the operand, lying as sharding `from` before and as `to` after; goes when the program is partitioned";
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_operand_count("reshard", operands, 1);
    attrs.text("from");
    attrs.text("to");
    return Types{operands[0]};
  };
  def.factors = elementwise_factors;
  def.grad = [](const GradArgs& args) {
    return Cotangents{args.builder.one("reshard", {*args.cotangents[0]},
                                       {{"from", args.attrs.text("to")}, {"to", args.attrs.text("from")}})};
  };
  def.linear = linear_together;
  def.cost = [](const NodeView&) { return Cost{}; };
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
    results[0].data = operands[0].data;
  };
  def.may_alias = 0;
  def.stablehlo = [](HloWriter& w, const HloArgs& args) {
    return HloResults{w.constrain(args.operands[0], ir::parse_sharding(args.attrs().text("to"), w.mesh()))};
  };
  def.samples = [] {
    const auto sample = [](ir::Shape shape, const std::string& sharding) {
      return Sample{.name = ir::to_string(shape),
                    .operands = {{ir::DType::f32, shape}},
                    .attrs = {{"from", sharding}, {"to", sharding}}};
    };
    return std::vector<Sample>{sample({4, 6}, "-,-"), sample({3}, "-"), sample({}, "")};
  };
  return def;
}

}  // namespace megacpp::ops
