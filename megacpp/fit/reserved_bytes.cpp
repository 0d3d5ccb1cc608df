// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/reserved_bytes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "megacpp/fit/parameter_bytes.h"
#include "megacpp/fit/stacked_bytes.h"
#include "megacpp/ops/op_def.h"
#include "megacpp/recipe/block_loops.h"
#include "megacpp/recipe/recompute.h"

namespace megacpp::fit {
namespace {

constexpr const char* kKeepsAll = "none";
constexpr int64_t kF32Bytes = 4, kBf16Bytes = 2;
constexpr int64_t kScoreBytes = kF32Bytes + kBf16Bytes;  // both are there in an attention's gradient

// Of the steps that the rule was made from. Beyond, attention is a loop over blocks and holds other temporaries.
constexpr int64_t kLongestSequence = 4096;

bool keeps_all(const recipe::Recipe& recipe, char letter) {
  return recipe::recompute_level(recipe, letter) == kKeepsAll;
}

bool keeps_all(const recipe::Recipe& recipe) {
  return std::ranges::all_of(recipe::recompute_letters(recipe.model),
                             [&](char letter) { return keeps_all(recipe, letter); });
}

/// Of forward and backward pass alone: where an update needs more, the peak of the step says nothing of gradients.
memory::MemoryPlan micro_step_memory(const compile::StagePrograms& chip, const schedule::Target& target) {
  const std::vector<memory::ProgramPlan>& programs = chip.memory.programs;
  const auto peak = std::ranges::max_element(programs, {}, &memory::ProgramPlan::temporary_bytes);
  const size_t micro_step = chip.index_of(compile::ProgramKind::micro_step);
  if (static_cast<size_t>(peak - programs.begin()) == micro_step) return chip.memory;
  return memory::plan_memory({&chip.programs[micro_step].graph}, target);
}

/// Of items that `is_counted` takes.
template <typename IsCounted>
int64_t summed_bytes(const memory::MemoryPlan& plan, const IsCounted& is_counted) {
  int64_t bytes = 0;
  for (const memory::Item& item : plan.items)
    if (is_counted(item)) bytes += item.bytes;
  return bytes;
}

bool is_in_block(const memory::Item& item) { return !item.letter.empty(); }
bool is_block_weight(const memory::Item& item) { return item.role == ir::Role::weight && is_in_block(item); }
bool is_outside_weight(const memory::Item& item) { return item.role == ir::Role::weight && !is_in_block(item); }
bool is_gradient(const memory::Item& item) { return item.role == ir::Role::gradient; }

int64_t in_bf16(int64_t f32_bytes) { return f32_bytes * kBf16Bytes / kF32Bytes; }

/// Weights in bf16 that the plan counts as activations: of blocks that neither gather nor convert them again.
int64_t kept_weight_bytes(const memory::MemoryPlan& plan, const recipe::Recipe& recipe, int64_t zero) {
  if (zero == 3) return 0;
  return in_bf16(summed_bytes(plan, [&recipe](const memory::Item& item) {
    return is_block_weight(item) && keeps_all(recipe, item.letter[0]);
  }));
}

// What blocks of a loop's body do not keep XLA makes again for half of them before it uses it.
double alive_blocks(const recipe::Recipe& recipe, const hw::Chip& device) {
  if (keeps_all(recipe)) return device.alive_blocks;
  return std::max(device.alive_blocks, static_cast<double>(recipe::repeated_blocks(recipe.model).period) / 2);
}

/// Bytes of all blocks, where those of one iteration are known.
int64_t of_all_blocks(int64_t iteration, const recipe::Model& model) {
  const auto period = static_cast<double>(recipe::repeated_blocks(model).period);
  return std::llround(static_cast<double>(iteration) * static_cast<double>(model.depth) / period);
}

/// What blocks keep for the backward pass, without copies of weights: as they do, and if nothing were recomputed.
struct Stacks {
  int64_t kept = 0, all = 0;
};
Stacks stacks_of(const recipe::Recipe& recipe, const memory::MemoryPlan& memory, int64_t zero,
                 const schedule::Target& target) {
  const auto bytes = [&](const recipe::Recipe& one) {
    const int64_t stacked = of_all_blocks(stacked_bytes_of_iteration(one, target), one.model);
    return std::max<int64_t>(0, stacked - kept_weight_bytes(memory, one, zero));
  };
  const int64_t kept = bytes(recipe);
  if (keeps_all(recipe)) return {kept, kept};
  recipe::Recipe keeping = recipe;
  recipe::set_recompute_levels(keeping, kKeepsAll);
  return {kept, bytes(keeping)};
}

int64_t code_of_blocks(const recipe::Recipe& recipe, const hw::Chip& device) {
  const base::Repeat repeat = recipe::repeated_blocks(recipe.model);
  const int64_t looped = static_cast<int64_t>(repeat.period * (repeat.count - 1));
  return device.code_bytes_base + device.code_bytes_per_block * (recipe.model.depth - looped);
}

/// Of the attention with the most: scores have an exponential each.
int64_t scores_of_one_attention(const ir::Graph& graph) {
  double scores = 0;
  for (const ir::Node& node : graph.nodes()) {
    const ops::OpDef& op = ops::op_def(node.op);
    if (!op.is_work()) continue;
    const ops::Types operands = graph.operand_types(node), results = graph.result_types(node);
    scores = std::max(scores, op.cost({operands, results, node.attrs}).exponentials);
  }
  return std::llround(scores);
}

/// Elements on a chip.
struct Head {
  int64_t logits = 0, weight = 0;
};

Head head_of(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes())
    if (node.op == "dot" && ir::scope_block(node.scope) == "head")
      return {graph.type(node.results[0]).elements(), graph.type(node.operands[1]).elements()};
  return {};
}

int64_t scaled(double factor, int64_t bytes) { return std::llround(factor * static_cast<double>(bytes)); }

/// Of blocks' weights in bf16.
struct WeightCopies {
  int64_t whole_step = 0;    // converted before all loops, or kept by blocks for the backward pass
  int64_t forward_loop = 0;  // gone behind it
};

// Converted once for all micro-steps. Of one alone the forward loop reads them, and blocks keep what they read.
WeightCopies weight_copies(const memory::MemoryPlan& plan, const recipe::Recipe& recipe, int64_t zero) {
  const int64_t converted = in_bf16(summed_bytes(plan, is_block_weight)), kept = kept_weight_bytes(plan, recipe, zero);
  const bool for_all = zero == 3 || recipe.train.micro_steps > 1;
  return for_all ? WeightCopies{.whole_step = kept + converted}
                 : WeightCopies{.whole_step = kept, .forward_loop = converted};
}

}  // namespace

int64_t ReservedBytes::alive() const {
  return arguments + kept + weight_copies + outside_weights + std::max({forward, head, backward}) + other;
}

ReservedRange ReservedBytes::range(const hw::Chip& device) const {
  const double off = 1 + device.reserved_off_most;
  return {.least = std::max(scaled(1 / off, total()) - code, arguments),
          .expected = total() - code,
          .most = scaled(off, total()) - code,
          .least_code = code,
          .code = code,
          .alive = alive()};
}

bool has_reserved_rule(const recipe::Recipe& recipe, const hw::Chip& device) {
  return device.reserved_per_alive > 0 && recipe::has_block_loops(recipe) && recipe.xla.placement == "megacpp" &&
         recipe.train.precision == "bf16" && recipe.train.sequence <= kLongestSequence;
}

std::optional<ReservedBytes> reserved_bytes(const recipe::Recipe& recipe, const plan::Plan& plan,
                                            const compile::Compiled& compiled, const schedule::Target& target,
                                            const hw::Chip& device) {
  if (!has_reserved_rule(recipe, device) || compiled.stages.size() > 1) return std::nullopt;
  const compile::StagePrograms& chip = compiled.stages[0];
  const memory::MemoryPlan memory = micro_step_memory(chip, target);
  const ir::Graph& micro_step = chip.find(compile::ProgramKind::micro_step).graph;
  const int64_t zero = plan.layout.zero;
  const Stacks stacks = stacks_of(recipe, memory, zero, target);
  const int64_t gradients = summed_bytes(memory, is_gradient);
  const bool has_sums = recipe.train.micro_steps > 1;
  const int64_t sums = has_sums ? gradients : 0;
  const WeightCopies copies = weight_copies(memory, recipe, zero);
  const Head head = head_of(micro_step);
  const int64_t logits = kBf16Bytes * head.logits;
  const int64_t block = stacks.all / recipe.model.depth;
  ReservedBytes reserved{
      .arguments = argument_bytes(chip.memory, recipe, device).total(),
      .kept = stacks.kept,
      .weight_copies = copies.whole_step,
      .outside_weights = zero == 3 ? 0 : summed_bytes(memory, is_outside_weight),
      .forward = copies.forward_loop + sums,
      .head = kF32Bytes * head.weight + logits + sums,
      .backward = gradients + kScoreBytes * scores_of_one_attention(micro_step) +
                  scaled(alive_blocks(recipe, device), block) + (has_sums ? logits : 0),
      .code = code_of_blocks(recipe, device),
  };
  if (chip.memory.peak_program == "update")
    reserved.other = std::max<int64_t>(0, chip.memory.total_bytes - reserved.alive());
  reserved.gaps = scaled(device.reserved_per_alive - 1, reserved.alive());
  return reserved;
}

std::optional<ReservedRange> reserved_range(const std::optional<ReservedBytes>& reserved,
                                            const compile::Compiled& compiled, const hw::Chip& device) {
  if (reserved) return reserved->range(device);
  if (device.gaps_least == 1 || compiled.stages.size() > 1) return std::nullopt;
  const memory::MemoryPlan& memory = compiled.stages[0].memory;
  const int64_t planned = memory.total_bytes;
  return ReservedRange{.least = std::max(scaled(device.gaps_least, planned), memory.state_bytes),
                       .expected = planned,
                       .most = scaled(device.gaps_most, planned),
                       .least_code = device.code_bytes_least,
                       .code = code_bytes(device),
                       .alive = planned};
}

}  // namespace megacpp::fit
