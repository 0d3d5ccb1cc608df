// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/xla/reserve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "megacpp/machine/xla/tpu_rule.h"
#include "megacpp/program/blocks/feed_forward.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/block_types.h"

namespace megacpp::runtime::xla {
namespace {

// One H200 held 1.45 and 1.59 times the planned peak of steps with dropless experts.
constexpr double kDroplessMost = 1.65;

/// Of its planned peak, what a step takes at most.
double gaps_most(const recipe::Recipe& recipe, const hw::Chip& device) {
  const hw::CompiledByXla& known = device.xla;
  if (has_dropless_experts(recipe.model)) return std::max({known.gaps_most, known.loops_gaps_most, kDroplessMost});
  const bool has_loops = recipe::has_block_loops(settled_on(device, recipe));
  return has_loops && known.loops_gaps_most > 0 ? known.loops_gaps_most : known.gaps_most;
}

/// Unrolled TPU steps longer than any that was recorded: fusions across both passes may make most of them again.
double gaps_least(const recipe::Recipe& recipe, const hw::Chip& device) {
  const double least = device.xla.gaps_least;
  const bool may_be_made_again =
      device.kind == hw::ChipKind::tpu && !recipe::has_block_loops(recipe) && recipe.train.sequence > kLongestSequence;
  return may_be_made_again && least < 1 ? 0 : least;
}

fit::Reservation reserve_by_gaps(const fit::StepProgram& step, const hw::Chip& device) {
  const memory::MemoryPlan& planned = step.compiled.stages[step.stage].memory;
  const auto part = [&](double of_planned) {
    return std::llround(of_planned * static_cast<double>(planned.total_bytes));
  };
  const auto& [code_least, code_most] = std::pair(device.xla.code_least, device.xla.code_most);
  return {.least = std::max<int64_t>(part(gaps_least(step.planned.recipe(), device)), planned.state_bytes) + code_least,
          .expected = planned.total_bytes + code_most,
          .most = part(gaps_most(step.planned.recipe(), device)) + code_most,
          .least_code = code_least,
          .code = code_most,
          .state = planned.state_bytes,
          .alive = planned.total_bytes,
          .is_asked_first = device.kind == hw::ChipKind::tpu};
}

}  // namespace

std::optional<fit::Reservation> reserve(const fit::StepProgram& step, const hw::Chip& device) {
  const bool has_rule = has_tpu_rule(step.planned.recipe(), device) && step.compiled.stages.size() == 1;
  return has_rule ? reserve_by_tpu_rule(step, device) : reserve_by_gaps(step, device);
}

double pool_share(const hw::Chip& chip, int64_t sharers) {
  return chip.kind == hw::ChipKind::gpu ? gpu_pool_share(sharers) : 1;
}

bool has_dropless_experts(const recipe::Model& model) {
  return std::ranges::any_of(recipe::block_types(model), [](const recipe::BlockType& type) {
    const auto* const config = type.config.get_if<blocks::FeedForward>();
    return config != nullptr && config->experts > 0 && config->is_dropless();
  });
}

recipe::Recipe settled_on(const hw::Chip& chip, recipe::Recipe recipe) {
  if (chip.kind == hw::ChipKind::gpu && recipe.xla.plugin == recipe::Xla{}.plugin) recipe.xla.plugin = "cuda";
  return recipe;
}

}  // namespace megacpp::runtime::xla
