// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/step_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "megacpp/hardware/fit/deep_tables.h"
#include "megacpp/hardware/fit/parameter_bytes.h"
#include "megacpp/machine/xla/stacked_bytes.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/ops/attention_decompose.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/plan/parameter_table.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::runtime::xla {
namespace {

constexpr int64_t kF32Bytes = 4, kBf16Bytes = 2;
constexpr int kF32Bits = 32;

constexpr recipe::RecomputeLevel kKeepsAll = recipe::RecomputeLevel::none;
constexpr recipe::RecomputeLevel kRecomputesWhole = recipe::RecomputeLevel::full;

/// Weights in bf16 that blocks keep which recompute nothing.
int64_t kept_weight_bytes(const recipe::Recipe& recipe, const memory::MemoryPlan& step) {
  int64_t bytes = 0;
  for (const memory::Item& item : step.items)
    if (item.role == ir::Role::weight && !item.letter.empty() &&
        recipe::recompute_level(recipe, item.letter[0]) == kKeepsAll)
      bytes += in_bf16(item.bytes);
  return bytes;
}

/// Of forward and backward pass alone: where an update needs more, the peak of the step says nothing of gradients.
memory::MemoryPlan micro_step_memory(const compile::StagePrograms& chip, const schedule::Target& target) {
  const std::vector<memory::ProgramPlan>& programs = chip.memory.programs;
  const auto peak = std::ranges::max_element(programs, {}, &memory::ProgramPlan::temporary_bytes);
  const size_t micro_step = chip.index_of(compile::ProgramKind::micro_step);
  if (static_cast<size_t>(peak - programs.begin()) == micro_step) return chip.memory;
  return memory::plan_memory({&chip.programs[micro_step].graph}, target);
}

void add_weights(const recipe::Recipe& recipe, const memory::MemoryPlan& step, StepParts& parts) {
  for (const memory::Item& item : step.items) {
    const bool is_weight = item.role == ir::Role::weight, is_outside = item.letter.empty();
    if (is_weight) (is_outside ? parts.outside_weights : parts.block_weights) += item.bytes;
    if (is_outside && (is_weight || item.role == ir::Role::optimizer)) parts.outside_state += item.bytes;
  }
  parts.kept_weights = parts.gathers_weights ? 0 : kept_weight_bytes(recipe, step);
}

int64_t gradient_bytes(const memory::MemoryPlan& micro_step) {
  int64_t bytes = 0;
  for (const memory::Item& item : micro_step.items)
    if (item.role == ir::Role::gradient) bytes += item.bytes;
  return bytes;
}

/// Of an attention its scores: beside them it holds rows of queries and of keys.
int64_t largest_temporary(const ops::OpDef& op, const ops::NodeView& view) {
  int64_t elements = 0;
  for (const ir::TensorType& type : op.temporaries(view)) elements = std::max(elements, type.elements());
  return elements;
}

int64_t loop_temporary_bytes(const ops::OpDef& op, const ops::NodeView& view) {
  int64_t bytes = 0;
  for (const ir::TensorType& type : op.temporaries(view)) bytes += type.bytes();
  return bytes;
}

// Scores have an exponential each. An op in its looped form has those of one pair of blocks at a time.
void add_scores(const recipe::Recipe& recipe, const ir::Graph& graph, StepParts& parts) {
  for (const ir::Node& node : graph.nodes()) {
    const ops::OpDef& op = ops::op_def(node.op);
    if (!op.is_work()) continue;
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    const ops::NodeView view{operands, results, node.attrs};
    if (op.is_composite() && op.stablehlo) {
      parts.loop_temporaries = std::max(parts.loop_temporaries, loop_temporary_bytes(op, view));
      continue;
    }
    const int64_t scores = std::llround(op.cost(view).exponentials);
    const std::string_view letter = ir::scope_letter(node.scope);
    if (scores <= parts.scores || letter.empty()) continue;
    parts.scores = scores;
    parts.block_scores = op.temporaries ? largest_temporary(op, view) : scores;
    parts.scores_at_once = parts.block_scores;
    if (op.temporaries && recipe::recompute_level(recipe, letter[0]) == kRecomputesWhole)
      parts.scores_at_once = ops::scores_of_all_blocks(view);
  }
}

void add_head(const ir::Graph& graph, StepParts& parts) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != "dot" || ir::scope_block(node.scope) != "head") continue;
    parts.logits = kBf16Bytes * graph.type(node.results[0]).elements();
    parts.head_weight = kF32Bytes * graph.type(node.operands[1]).elements();
    return;
  }
}

/// Whether parts along the rows or along the columns of a matrix begin where a tile does.
bool fill_tiles(const ir::Shape& part, const ir::Shape& whole, const hw::Tiling& tiling) {
  const size_t rank = whole.size();
  if (rank < 2 || !tiling.rows.contains(kF32Bits)) return true;
  const auto fills = [&](size_t dim, int64_t tile) { return part[dim] == whole[dim] || part[dim] % tile == 0; };
  return fills(rank - 1, tiling.lanes) && fills(rank - 2, tiling.rows.at(kF32Bits));
}

void add_parameters(const plan::Plan& plan, const std::vector<blocks::Parameter>& parameters, const hw::Tiling& tiling,
                    StepParts& parts) {
  for (const blocks::Parameter& parameter : parameters) {
    const plan::ParameterSpec spec = plan::spec_of(plan, parameter);
    const auto shape = [&](const ir::Sharding& sharding) {
      return ir::local_shape(parameter.shape, sharding, plan.parallel.mesh);
    };
    const auto bytes = [&](const ir::Sharding& sharding) { return kF32Bytes * ir::num_elements(shape(sharding)); };
    parts.computed_weights += bytes(spec.computed);
    if (fill_tiles(shape(spec.optimizer), shape(spec.stored), tiling)) parts.copied_weights += bytes(spec.stored);
  }
}

/// With selective recompute of dense feed-forwards that keep all: fusions across both passes make that again.
recipe::Recipe with_fused_feed_forwards(const recipe::Recipe& recipe) {
  recipe::Recipe fused = recipe;
  for (const recipe::BlockType& type : recipe::block_types(recipe.model))
    if (type.traits().selective_is_cheap && recipe::recompute_level(recipe, type.letter) == kKeepsAll)
      recipe::set_recompute_level(fused, type.letter, recipe::RecomputeLevel::selective);
  return fused;
}

/// Without copies of weights.
int64_t kept_bytes(const recipe::Recipe& recipe, const fit::StepProgram& step, const StepParts& parts) {
  const int64_t weights =
      parts.gathers_weights ? 0 : kept_weight_bytes(recipe, step.compiled.stages[step.stage].memory);
  return std::max<int64_t>(0, stacked_bytes(recipe, step.target) - weights);
}

/// Unrolled, fusions make nothing again between weights that ZeRO 3 gathers twice and several sequences of a chip, as
/// recorded steps show.
void add_kept(const fit::StepProgram& step, StepParts& parts) {
  const recipe::Recipe& recipe = step.planned.recipe();
  const bool are_fused = !parts.has_loops && !(parts.gathers_weights && parts.sequences > 1);
  parts.kept = kept_bytes(are_fused ? with_fused_feed_forwards(recipe) : recipe, step, parts);
  if (!parts.has_loops) return;
  recipe::Recipe keeping = recipe;
  recipe::set_recompute_levels(keeping, kKeepsAll);
  const bool keeps_all = recipe::all_recompute_at(recipe, kKeepsAll);
  parts.kept_of_block = (keeps_all ? parts.kept : kept_bytes(keeping, step, parts)) / recipe.model.depth;
}

StepParts parts_of_whole(const fit::StepProgram& step, const hw::Chip& device) {
  const recipe::Recipe& recipe = step.planned.recipe();
  const plan::Plan& plan = step.planned.plan();
  const compile::StagePrograms& chip = step.compiled.stages[step.stage];
  const ir::Graph& micro_step = chip.find(compile::ProgramKind::micro_step).graph;
  StepParts parts{.arguments = fit::argument_bytes(chip.memory, recipe, device).total(),
                  .all_gradients = plan::state_bytes(plan, step.compiled.parameters).gradients,
                  .has_loops = recipe::has_block_loops(recipe),
                  .adds_sums = recipe.train.micro_steps > 1,
                  .reduces_gradients = plan.parallel.mesh.size(plan.copies) > 1};
  parts.gathers_weights = plan.layout.zero() == 3 && parts.reduces_gradients;
  parts.gathers_updates = plan.layout.zero() > 0 && plan.layout.zero() < 3 && parts.reduces_gradients;
  parts.sequences = recipe.train.batch / (plan.layout->data_parallel * plan.layout->expert_parallel);
  parts.gradients = gradient_bytes(micro_step_memory(chip, step.target));
  add_parameters(plan, step.compiled.parameters, device.tiling, parts);
  add_weights(recipe, chip.memory, parts);
  add_head(micro_step, parts);
  add_scores(recipe, micro_step, parts);
  add_kept(step, parts);
  return parts;
}

constexpr std::array kNumbers = {
    &StepParts::block_weights,  &StepParts::outside_weights, &StepParts::outside_state,  &StepParts::computed_weights,
    &StepParts::copied_weights, &StepParts::kept_weights,    &StepParts::kept,           &StepParts::kept_of_block,
    &StepParts::gradients,      &StepParts::all_gradients,   &StepParts::logits,         &StepParts::head_weight,
    &StepParts::scores,         &StepParts::block_scores,    &StepParts::scores_at_once, &StepParts::loop_temporaries};

/// Nothing where the number of the deepest plan is not on the line of the other two.
std::optional<int64_t> extended(const fit::ShallowDepths& depths, const std::array<int64_t, 3>& numbers) {
  if (!fit::is_on_line(depths, numbers)) return std::nullopt;
  return depths.extended(numbers[1], numbers[2]);
}

std::optional<StepParts> parts_of_deep(const fit::StepProgram& step, const hw::Chip& device) {
  const fit::ShallowPlans& shallow = *step.shallow;
  std::array<StepParts, 3> parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const fit::ShallowPlan& one = shallow.plans[i];
    parts[i] = parts_of_whole({one.planned, one.compiled, step.target}, device);
  }
  StepParts deep = parts[2];
  for (int64_t StepParts::*const number : kNumbers) {
    const std::optional<int64_t> bytes =
        extended(shallow.depths, {parts[0].*number, parts[1].*number, parts[2].*number});
    if (!bytes) return std::nullopt;
    deep.*number = *bytes;
  }
  deep.arguments = fit::deep_argument_bytes(shallow, step.stage, device).total();
  return deep;
}

}  // namespace

int64_t in_bf16(int64_t f32_bytes) { return f32_bytes * kBf16Bytes / kF32Bytes; }

std::optional<StepParts> step_parts(const fit::StepProgram& step, const hw::Chip& device) {
  return step.shallow != nullptr ? parts_of_deep(step, device) : parts_of_whole(step, device);
}
}  // namespace megacpp::runtime::xla
