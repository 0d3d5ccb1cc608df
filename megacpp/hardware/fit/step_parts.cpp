// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/step_parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "megacpp/hardware/fit/parameter_bytes.h"
#include "megacpp/program/ops/attention_decompose.h"
#include "megacpp/program/ops/hlo_writer.h"
#include "megacpp/program/ops/op_def.h"
#include "megacpp/program/plan/parameter_table.h"

namespace megacpp::fit {
namespace {

constexpr int64_t kF32Bytes = 4, kBf16Bytes = 2;
constexpr int kF32Bits = 32;

/// Of forward and backward pass alone: where an update needs more, the peak of the step says nothing of gradients.
memory::MemoryPlan micro_step_memory(const compile::StagePrograms& chip, const schedule::Target& target) {
  const std::vector<memory::ProgramPlan>& programs = chip.memory.programs;
  const auto peak = std::ranges::max_element(programs, {}, &memory::ProgramPlan::temporary_bytes);
  const size_t micro_step = chip.index_of(compile::ProgramKind::micro_step);
  if (static_cast<size_t>(peak - programs.begin()) == micro_step) return chip.memory;
  return memory::plan_memory({&chip.programs[micro_step].graph}, target);
}

void add_state(const memory::MemoryPlan& step, StepParts& parts) {
  for (const memory::Item& item : step.items) {
    const bool is_weight = item.role == ir::Role::weight, is_outside = item.letter.empty();
    if (is_weight && !is_outside) parts.block_weights[item.letter[0]] += item.bytes;
    if (is_weight && is_outside) parts.outside_weights += item.bytes;
    if (is_outside && (is_weight || item.role == ir::Role::optimizer)) parts.outside_state += item.bytes;
  }
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
void add_scores(const ir::Graph& graph, StepParts& parts) {
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
    parts.scores_letter = letter[0];
    parts.block_scores = op.temporaries ? largest_temporary(op, view) : scores;
    parts.scores_with_masked = op.temporaries ? ops::scores_of_all_blocks(view) : scores;
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

bool is_outside(blocks::ParameterKind kind) {
  return kind == blocks::ParameterKind::embedding || kind == blocks::ParameterKind::head;
}

// As the TPU compiler gets reduce-scatters.
bool scatters_in_stages(const plan::Plan& plan, int64_t gradient_chips) {
  return ops::scatter_stages(gradient_chips, plan.chips, {.has_square_scatters = false}).size() > 1;
}

// Of micro-steps with whole weights XLA moves the reduce-scatters of the table's gradient and of the head's behind the
// loop, which adds up what the chip itself has: so lists of buffers say, but not over several axes. Of two stages it
// moves the second, and the sum is what the first leaves: too little to be told from what else is expected too much.
bool is_scattered_behind_loop(const plan::Plan& plan, const blocks::Parameter& parameter, const StepParts& parts) {
  if (!plan.adds_micro_steps || plan.layout.zero() != 2 || plan.copies.size() != 1) return false;
  return is_outside(parameter.kind) && !scatters_in_stages(plan, parts.gradient_chips);
}

void add_parameters(const plan::Plan& plan, const std::vector<blocks::Parameter>& parameters, const hw::Tiling& tiling,
                    StepParts& parts) {
  for (const blocks::Parameter& parameter : parameters) {
    const plan::ParameterSpec spec = plan::spec_of(plan, parameter);
    const auto shape = [&](const ir::Sharding& sharding) {
      return ir::local_shape(parameter.shape, sharding, plan.parallel.mesh);
    };
    const auto bytes = [&](const ir::Sharding& sharding) { return kF32Bytes * ir::num_elements(shape(sharding)); };
    const int64_t whole = bytes(spec.computed), part = bytes(spec.gradient);
    parts.computed_weights += whole;
    if (fill_tiles(shape(spec.optimizer), shape(spec.stored), tiling)) parts.copied_weights += bytes(spec.stored);
    const bool is_behind = is_scattered_behind_loop(plan, parameter, parts);
    if (is_behind) parts.unscattered_sums += whole - part;
    if (parameter.kind == blocks::ParameterKind::head) parts.sums_whole_head = is_behind || part == whole;
  }
}

}  // namespace

int64_t in_bf16(int64_t f32_bytes) { return f32_bytes * kBf16Bytes / kF32Bytes; }

int64_t StepParts::stored_block_weights() const {
  int64_t bytes = 0;
  for (const auto& [letter, of_letter] : block_weights) bytes += of_letter;
  return bytes;
}

StepParts step_parts(const plan::PlannedRecipe& planned, const compile::Compiled& compiled,
                     const schedule::Target& target, const hw::Chip& device) {
  const plan::Plan& plan = planned.plan();
  const compile::StagePrograms& chip = compiled.stages[0];
  const ir::Graph& micro_step = chip.find(compile::ProgramKind::micro_step).graph;
  StepParts parts{.arguments = argument_bytes(chip.memory, planned.recipe(), device).total(),
                  .all_gradients = plan::state_bytes(plan, compiled.parameters).gradients,
                  .gradient_chips = plan.parallel.mesh.size(plan.copies)};
  parts.gathers_weights = plan.layout.zero() == 3 && parts.gradient_chips > 1;
  parts.gathers_updates = plan.layout.zero() > 0 && plan.layout.zero() < 3 && parts.gradient_chips > 1;
  parts.sequences = plan.training.batch / (plan.layout->data_parallel * plan.layout->expert_parallel);
  parts.gradients = gradient_bytes(micro_step_memory(chip, target));
  add_parameters(plan, compiled.parameters, device.tiling, parts);
  add_state(chip.memory, parts);
  add_head(micro_step, parts);
  add_scores(micro_step, parts);
  return parts;
}

}  // namespace megacpp::fit
