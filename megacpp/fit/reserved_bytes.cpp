// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/reserved_bytes.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/fit/parameter_bytes.h"
#include "megacpp/recipe/block_loops.h"
#include "megacpp/recipe/pattern.h"
#include "megacpp/recipe/recompute.h"

namespace megacpp::fit {
namespace {

constexpr const char* kKeepsAll = "none";

// Of the steps that the rule was fitted to. Beyond, attention is a loop over blocks and temporaries weigh more.
constexpr int64_t kLongestSequence = 4096;

bool has_rule(const Estimate& estimate, const hw::Chip& device) {
  const recipe::Recipe& recipe = estimate.recipe;
  return device.reserved_per_kept > 0 && recipe::has_block_loops(recipe) && recipe.xla.placement == "megacpp" &&
         recipe.train.precision == "bf16" && recipe.train.sequence <= kLongestSequence &&
         estimate.compiled.stages.size() == 1;
}

bool keeps_all(const recipe::Recipe& recipe, char letter) {
  return recipe::recompute_level(recipe, letter) == kKeepsAll;
}

bool keeps_all(const recipe::Recipe& recipe) {
  return std::ranges::all_of(recipe::recompute_letters(recipe.model),
                             [&](char letter) { return keeps_all(recipe, letter); });
}

/// Of forward and backward pass alone: where an update needs more, the peak of the step says nothing of what blocks
/// keep.
memory::MemoryPlan micro_step_memory(const compile::StagePrograms& chip, const schedule::Target& target) {
  const std::vector<memory::ProgramPlan>& programs = chip.memory.programs;
  const auto peak = std::ranges::max_element(programs, {}, &memory::ProgramPlan::temporary_bytes);
  const size_t micro_step = chip.index_of(compile::ProgramKind::micro_step);
  if (static_cast<size_t>(peak - programs.begin()) == micro_step) return chip.memory;
  return memory::plan_memory({&chip.programs[micro_step].graph}, target);
}

int64_t role_bytes(const memory::MemoryPlan& plan, ir::Role role) {
  int64_t bytes = 0;
  for (const memory::Item& item : plan.items)
    if (item.role == role) bytes += item.bytes;
  return bytes;
}

int64_t outside_bytes(const memory::MemoryPlan& plan) {
  int64_t bytes = role_bytes(plan, ir::Role::collective);
  for (const memory::Item& item : plan.items)
    if (item.role == ir::Role::temporary && item.letter.empty()) bytes += item.bytes;
  return bytes;
}

/// Weights in bf16, which the plan counts as activations where blocks neither gather nor convert them again: half of
/// what is stored. Of those outside blocks not all are converted; the chip's factor was fitted to this sum.
int64_t weight_copy_bytes(const memory::MemoryPlan& plan, const recipe::Recipe& recipe, int64_t zero) {
  if (zero == 3) return 0;
  int64_t bytes = 0;
  for (const memory::Item& item : plan.items)
    if (item.role == ir::Role::weight && (item.letter.empty() || keeps_all(recipe, item.letter[0])))
      bytes += item.bytes / 2;
  return std::min(bytes, role_bytes(plan, ir::Role::activation));
}

/// What is kept for the backward pass, without copies of weights.
int64_t kept_bytes(const memory::MemoryPlan& plan, const recipe::Recipe& recipe, int64_t zero) {
  return role_bytes(plan, ir::Role::activation) - weight_copy_bytes(plan, recipe, zero);
}

/// The same of blocks alone, none of which recomputes.
int64_t kept_in_blocks(const memory::MemoryPlan& plan, int64_t zero) {
  int64_t bytes = 0;
  for (const memory::Item& item : plan.items) {
    if (item.letter.empty()) continue;
    if (item.role == ir::Role::activation) bytes += item.bytes;
    if (item.role == ir::Role::weight && zero < 3) bytes -= item.bytes / 2;
  }
  return std::max<int64_t>(0, bytes);
}

/// One iteration of the loop as a model by itself, which recomputes nothing.
recipe::Recipe one_iteration(const recipe::Recipe& recipe) {
  const base::Repeat repeat = recipe::repeated_blocks(recipe.model);
  const std::vector<char> letters = recipe::expand(recipe.model).letters;
  const auto first = letters.begin() + static_cast<std::ptrdiff_t>(repeat.first);
  recipe::Recipe one = recipe;
  one.model.pattern = std::string(first, first + static_cast<std::ptrdiff_t>(repeat.period));
  one.model.depth = static_cast<int64_t>(repeat.period);
  recipe::set_recompute_levels(one, kKeepsAll);
  return one;
}

int64_t iteration_bytes(const memory::MemoryPlan& plan, const recipe::Recipe& recipe, int64_t zero,
                        schedule::Target target) {
  if (!keeps_all(recipe)) {
    // Temporaries of one op would put the peak of so short a program behind blocks whose values it is to show.
    target.workspace_bytes = [](std::string_view, const ops::NodeView&) { return int64_t{0}; };
    const compile::Compiled compiled = compile::compile_micro_steps(one_iteration(recipe), target);
    return kept_in_blocks(compiled.stages[0].memory, zero);
  }
  const auto period = static_cast<double>(recipe::repeated_blocks(recipe.model).period);
  const auto kept = static_cast<double>(kept_bytes(plan, recipe, zero));
  return std::llround(kept * period / static_cast<double>(recipe.model.depth));
}

int64_t code_of_blocks(const recipe::Recipe& recipe, const hw::Chip& device) {
  const base::Repeat repeat = recipe::repeated_blocks(recipe.model);
  const int64_t looped = static_cast<int64_t>(repeat.period * (repeat.count - 1));
  return device.code_bytes_base + device.code_bytes_per_block * (recipe.model.depth - looped);
}

int64_t scaled(double factor, int64_t bytes) { return std::llround(factor * static_cast<double>(bytes)); }

}  // namespace

std::optional<ReservedBytes> reserved_bytes(const Estimate& estimate, const Assumptions& assumptions) {
  const hw::Chip device = hw::device_of(assumptions.slice.chip);
  if (!has_rule(estimate, device)) return std::nullopt;
  const recipe::Recipe& recipe = estimate.recipe;
  const schedule::Target target = target_on(assumptions);
  const memory::MemoryPlan plan = micro_step_memory(estimate.compiled.stages[0], target);
  const int64_t zero = estimate.plan.layout.zero;
  ReservedBytes reserved{
      .arguments = argument_bytes(estimate.worst_memory(), recipe, device).total(),
      .kept = scaled(device.reserved_per_kept, kept_bytes(plan, recipe, zero)),
      .weight_copies = scaled(device.reserved_per_copy, weight_copy_bytes(plan, recipe, zero)),
      .iteration = iteration_bytes(plan, recipe, zero, target),
      .gradients = role_bytes(plan, ir::Role::gradient),
      .outside = scaled(device.reserved_per_outside, outside_bytes(plan)),
      .code = code_of_blocks(recipe, device),
  };
  reserved.other = std::max<int64_t>(0, estimate.worst_memory().total_bytes + reserved.code - reserved.total());
  return reserved;
}

}  // namespace megacpp::fit
