// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/ops/tier_copy.h"

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/word_list.h"
#include "megacpp/program/ops/factor_spec.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/ops/require.h"

namespace megacpp::ops {
namespace {

OpDef tier_copy(std::string_view name, std::string doc) {
  OpDef def;
  def.name = name;
  def.doc = std::move(doc);
  def.factors = elementwise_factors;
  def.no_grad = "placed when programs are scheduled, after gradients";
  def.cost = [](const NodeView&) { return Cost{}; };
  def.reference = [](std::span<const Tensor> operands, std::span<Tensor> results, const ir::Attrs&) {
    results[0].data = operands[0].data;
  };
  def.is_tier_copy = true;
  return def;
}

std::vector<Sample> samples_of(const ir::Attrs& attrs) {
  return {{.name = "matrix", .operands = {{ir::DType::f32, {4, 6}}}, .attrs = attrs},
          {.name = "vector", .operands = {{ir::DType::f32, {3}}}, .attrs = attrs}};
}

std::string tier_names() {
  std::vector<std::string> names;
  for (const ir::MemoryTier& tier : ir::all_tiers()) names.emplace_back(tier.name);
  return base::any_of_words(names);
}

// The text has passed infer() or the parser of graphs.
ir::Tier tier_named(std::string_view name) {
  const std::optional<ir::Tier> tier = ir::parse_tier(name);
  MEGACPP_CHECK(tier) << "no memory " << name;
  return *tier;
}

/// An attribute of inputs; absent: the device's memory.
constexpr std::string_view kMemoryAttr = "memory";

}  // namespace

ir::Attrs copy_to(ir::Tier tier) { return {{"to", std::string(ir::record(tier).name)}}; }

void place_input(ir::Node& input, ir::Tier tier) {
  input.attrs.set(std::string(kMemoryAttr), std::string(ir::record(tier).name));
}

ir::Tier tier_of(const ir::Node& node) {
  if (node.op == kCopyStartOp) return tier_named(node.attrs.text("to"));
  const bool is_placed = node.op == ir::kInputOp && node.attrs.has(kMemoryAttr);
  return is_placed ? tier_named(node.attrs.text(kMemoryAttr)) : ir::Tier::device;
}

ir::Tier tier_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node& node = graph.producer(value);
  return tier_of(node.op == kCopyDoneOp ? graph.producer(node.operands[0]) : node);
}

OpDef copy_start_def() {
  OpDef def = tier_copy(kCopyStartOp, "begins to copy the operand to another memory (to)");
  def.infer = [](const Types& operands, const ir::Attrs& attrs) {
    require_operand_count(kCopyStartOp, operands, 1);
    const std::string& to = attrs.text("to");
    MEGACPP_REQUIRE(ir::parse_tier(to).has_value(), E1301,
                    {.where = std::string(kCopyStartOp), .got = "to " + to, .wanted = tier_names()});
    return Types{operands[0]};
  };
  def.samples = [] { return samples_of(copy_to(ir::Tier::device)); };
  return def;
}

OpDef copy_done_def() {
  OpDef def = tier_copy(kCopyDoneOp, "what a copy_start brings, once it is there");
  def.is_view = true;
  def.infer = [](const Types& operands, const ir::Attrs&) {
    require_operand_count(kCopyDoneOp, operands, 1);
    return Types{operands[0]};
  };
  def.samples = [] { return samples_of({}); };
  return def;
}

}  // namespace megacpp::ops
