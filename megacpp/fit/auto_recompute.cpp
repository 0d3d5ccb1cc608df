// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/auto_recompute.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/base/error.h"
#include "megacpp/compile/compile.h"
#include "megacpp/fit/estimate.h"
#include "megacpp/fit/step_time.h"
#include "megacpp/memory/chip_fit.h"
#include "megacpp/recipe/block_types.h"
#include "megacpp/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using recipe::Recipe;

constexpr size_t kNone = 0, kSelective = 1, kFull = 2;  // indices into kRecomputeLevels

/// One block of the family and nothing else, for one sequence on one chip.
Recipe one_block(const Recipe& recipe, char letter, const char* level) {
  Recipe twin = recipe;
  twin.model.pattern = std::string(1, letter);
  twin.model.depth = 1;
  twin.layout = {};
  twin.train.batch = 1;
  twin.train.micro_steps = 1;
  recipe::set_recompute_level(twin, letter, level);
  return twin;
}

/// What is kept from forward to backward.
double activation_bytes(const memory::MemoryPlan& plan) {
  for (const memory::RoleBytes& role : memory::bytes_by_role(plan))
    if (role.role == ir::Role::activation) return static_cast<double>(role.bytes);
  return 0;
}

/// Measured on an H200 through XLA, nam52-1b: a step with `selective` dense feed-forwards is 8% faster than with `none`
/// and keeps 35% less, since the backward pass reads what they are recomputed from anyway. The less a chip's memory
/// carries beside its arithmetic, the more that saves: so it holds for chips of at most the H200's bytes per FLOP.
constexpr double kMeasuredBytesPerFlop = 4.8e12 / 989e12;

bool is_free(const Recipe& recipe, char letter, const hw::Chip& chip) {
  const blocks::BlockDef& family = recipe::family_of(recipe.model, letter);
  const bool is_cheap = family.traits(recipe::config_of(recipe.model, letter)).selective_is_cheap;
  const double flops = chip.peak("bf16").value_or(0);
  return is_cheap && chip.kind != hw::ChipKind::host && flops > 0 &&
         chip.memory_bytes_per_second / flops <= kMeasuredBytesPerFlop;
}

}  // namespace

AutoRecompute::AutoRecompute(const Recipe& recipe, const Assumptions& assumptions)
    : recipe_(recipe), assumptions_(assumptions) {
  for (const char letter : recipe::recompute_letters(recipe.model))
    if (recipe::recompute_level(recipe, letter) == recipe::kAutoRecompute)
      families_.push_back({.letter = letter, .level = kNone, .why = {}, .cost = {}});
  for (Family& family : families_) take_what_is_free(family);
}

void AutoRecompute::set(Family& family, size_t level, std::string why) {
  family.level = level;
  family.why = std::move(why);
  recipe::set_recompute_level(recipe_, family.letter, kRecomputeLevels[level]);
}

const AutoRecompute::Cost& AutoRecompute::cost_of(Family& family) {
  if (family.cost) return *family.cost;
  const schedule::Target target = target_on(assumptions_);
  Cost& cost = family.cost.emplace();
  for (size_t level = 0; level < kRecomputeLevels.size(); ++level) {
    const Recipe twin = one_block(recipe_, family.letter, kRecomputeLevels[level]);
    const compile::Compiled compiled = compile::compile_training(twin, target);
    cost.seconds[level] = predict_step(compiled, assumptions_.slice, twin.train.precision).seconds();
    cost.bytes[level] = activation_bytes(compiled.largest().memory);
  }
  return cost;
}

void AutoRecompute::take_what_is_free(Family& family) {
  if (is_free(recipe_, family.letter, hw::device_of(assumptions_.slice.chip)))
    return set(family, kSelective, "costs no time: measured 8% faster on an H200, 35% less kept");
  set(family, kNone, "more is not known to cost no time here, and the plan needs no more");
}

std::vector<RecomputeChoice> AutoRecompute::choices() const {
  std::vector<RecomputeChoice> choices;
  for (const Family& family : families_) choices.push_back({family.letter, kRecomputeLevels[family.level], family.why});
  return choices;
}

bool AutoRecompute::can_raise() const {
  return std::ranges::any_of(families_, [](const Family& family) { return family.level < kFull; });
}

void AutoRecompute::raise() {
  MEGACPP_CHECK(can_raise()) << "every family recomputes everything";
  Family* best = nullptr;
  size_t best_level = 0;
  double best_price = 0;
  for (Family& family : families_)
    for (size_t level = family.level + 1; level <= kFull; ++level) {
      const Cost& cost = cost_of(family);
      const double saved = cost.bytes[family.level] - cost.bytes[level];
      const double spent = std::max(0.0, cost.seconds[level] - cost.seconds[family.level]);
      // Where nothing is saved in one block alone the level still comes, last.
      const double price = saved > 0 ? spent / saved : std::numeric_limits<double>::max();
      if (best == nullptr || price < best_price) best = &family, best_level = level, best_price = price;
    }
  set(*best, best_level, "the plan does not fit with less, and this costs the least time per byte");
}

void AutoRecompute::raise_all() {
  for (Family& family : families_) set(family, kFull, "the plan does not fit with less");
}

std::string to_text(std::span<const RecomputeChoice> choices) {
  std::vector<std::pair<std::string, std::vector<char>>> alike;  // by what is said of them
  for (const RecomputeChoice& choice : choices) {
    const std::string said = fmt::format("{} ({})", choice.level, choice.why);
    const auto at = std::ranges::find(alike, said, [](const auto& entry) { return entry.first; });
    (at == alike.end() ? alike.emplace_back(said, std::vector<char>{}) : *at).second.push_back(choice.letter);
  }
  std::vector<std::string> parts;
  for (const auto& [said, families] : alike) parts.push_back(fmt::format("{} {}", fmt::join(families, ", "), said));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace megacpp::fit
