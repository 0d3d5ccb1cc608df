// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ops/host_copy.h"

#include "megacpp/base/error.h"
#include "megacpp/ops/factor_spec.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/ops/require.h"

namespace megacpp::ops {
namespace {

OpDef host_copy(std::string_view name, std::string doc) {
  OpDef def;
  def.name = name;
  def.doc = std::move(doc);
  def.factors = elementwise_factors;
  def.no_grad = "placed when programs are scheduled, after gradients";
  def.cost = [](const NodeView&) { return Cost{}; };
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
    results[0].data = operands[0].data;
  };
  def.is_host_copy = true;
  return def;
}

std::vector<Sample> samples_of(const ir::Attrs& attrs) {
  return {{.name = "matrix", .operands = {{ir::DType::f32, {4, 6}}}, .attrs = attrs},
          {.name = "vector", .operands = {{ir::DType::f32, {3}}}, .attrs = attrs}};
}

}  // namespace

OpDef copy_start_def() {
  OpDef def = host_copy(kCopyStartOp, "begins to copy the operand to memory of the host or the device (to)");
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_operand_count(kCopyStartOp, operands, 1);
    const std::string& to = attrs.text("to");
    MEGACPP_REQUIRE(to == kToHost || to == kToDevice, E1301,
                    {.where = std::string(kCopyStartOp), .got = "to " + to, .wanted = "host or device"});
    return Types{operands[0]};
  };
  def.samples = [] { return samples_of({{"to", std::string(kToDevice)}}); };
  return def;
}

OpDef copy_done_def() {
  OpDef def = host_copy(kCopyDoneOp, "what a copy_start brings, once it is there");
  def.is_view = true;
  def.infer = [](const Types& operands, const ir::Attrs&) {
    require_operand_count(kCopyDoneOp, operands, 1);
    return Types{operands[0]};
  };
  def.samples = [] { return samples_of({}); };
  return def;
}

}  // namespace megacpp::ops
