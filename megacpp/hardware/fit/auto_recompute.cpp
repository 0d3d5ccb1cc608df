// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/auto_recompute.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/hardware/fit/estimate.h"
#include "megacpp/hardware/fit/step_time.h"
#include "megacpp/program/compile/compile.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/block_types.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using recipe::Recipe;

constexpr size_t kNone = 0, kSelective = 1, kFull = 2;  // indices into kRecomputeLevels

size_t level_of(recipe::RecomputeLevel level) {
  return static_cast<size_t>(std::ranges::find(kRecomputeLevels, level) - kRecomputeLevels.begin());
}

/// One block of the letter and nothing else, for one sequence on one chip.
Recipe one_block(const Recipe& recipe, char letter, recipe::RecomputeLevel level) {
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

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

/// Of a step with it over one without: less than a percent of gain is no more than runs differ by.
std::string speed_text(double speed) {
  if (speed < 1) return percent(1 - speed) + " slower";
  return speed < 1.01 ? "as fast" : percent(speed - 1) + " faster";
}

/// What was measured of selective recompute for steps like these; a chip's file speaks of steps that XLA compiled.
struct Measured {
  bool is_free = false;
  std::string text;
};
std::optional<Measured> measured_for(const Recipe& recipe, char letter, const Assumptions& assumptions) {
  const blocks::BlockDef& family = recipe::family_of(recipe.model, letter);
  // What was measured had its blocks unrolled.
  if (!assumptions.xla_forms || assumptions.lane.has_loops()) return std::nullopt;
  if (!family.traits(recipe::config_of(recipe.model, letter)).selective_is_cheap) return std::nullopt;
  const hw::Chip& chip = assumptions.slice.chip;
  const std::string precision(ir::dtype_name(recipe.train.precision));
  const hw::Fact* fact = chip.fact("recompute.selective_speed." + precision);
  if (fact == nullptr) return std::nullopt;
  const auto& [speed, memory] = chip.selective_recompute.at(precision);
  const std::string kept = memory > 0 && memory < 1 ? " and keeps " + percent(1 - memory) + " less" : "";
  const std::string date = fact->date.empty() ? "" : ", " + fact->date;
  return Measured{speed >= 1,
                  fmt::format("measured: a step is {}{}; {}{}", speed_text(speed), kept, fact->source, date)};
}

std::string reason_of(AutoRecompute::Need need) {
  switch (need) {
    case AutoRecompute::Need::limit:
      return "the plan does not fit with less";
    case AutoRecompute::Need::unsure:
      return "with less only a compiler can tell whether the plan fits";
    case AutoRecompute::Need::ceiling:
      return "a plan with less ran out of memory, or needs as much as one that did";
  }
  return "";
}

}  // namespace

AutoRecompute::AutoRecompute(const Recipe& recipe, const Assumptions& assumptions)
    : recipe_(recipe), assumptions_(assumptions) {
  for (const char letter : recipe::recompute_letters(recipe.model))
    if (recipe::recompute_level(recipe, letter) == recipe::RecomputeLevel::automatic)
      letters_.push_back({.name = letter});
  for (Letter& letter : letters_) take_what_is_free(letter);
}

void AutoRecompute::set(Letter& letter, size_t level, std::string why) {
  letter.level = level;
  letter.why = std::move(why);
  recipe::set_recompute_level(recipe_, letter.name, kRecomputeLevels[level]);
}

const AutoRecompute::Cost& AutoRecompute::cost_of(Letter& letter) {
  if (letter.cost) return *letter.cost;
  const schedule::Target target = target_on(assumptions_);
  Cost& cost = letter.cost.emplace();
  for (size_t level = 0; level < kRecomputeLevels.size(); ++level) {
    const Recipe twin = one_block(recipe_, letter.name, kRecomputeLevels[level]);
    const compile::Compiled compiled =
        compile::compile_training(plan::PlannedRecipe(twin).plan(), target, {.verify = compile::Verify::result});
    cost.seconds[level] = predict_step(compiled, assumptions_, twin.train.precision).seconds();
    cost.bytes[level] = activation_bytes(compiled.largest().memory);
  }
  return cost;
}

void AutoRecompute::take_what_is_free(Letter& letter) {
  const std::optional<Measured> measured = measured_for(recipe_, letter.name, assumptions_);
  if (measured && measured->is_free) return set(letter, kSelective, measured->text);
  set(letter, kNone,
      measured ? "the plan needs no more; selective was " + measured->text
               : "the plan needs no more; whether more would cost time was not measured here");
}

std::vector<RecomputeChoice> AutoRecompute::choices() const {
  std::vector<RecomputeChoice> choices;
  for (const Letter& letter : letters_)
    choices.push_back({.letter = letter.name,
                       .level = kRecomputeLevels[letter.level],
                       .why = letter.why,
                       .below_ceiling = letter.below_ceiling});
  return choices;
}

bool AutoRecompute::can_raise(recipe::RecomputeLevel level) const {
  return std::ranges::any_of(letters_, [most = level_of(level)](const Letter& letter) { return letter.level < most; });
}

void AutoRecompute::raise(Need need) {
  MEGACPP_CHECK(can_raise()) << "every letter recomputes everything";
  Letter* best = nullptr;
  size_t best_level = 0;
  double best_price = 0;
  for (Letter& letter : letters_)
    for (size_t level = letter.level + 1; level <= kFull; ++level) {
      const Cost& cost = cost_of(letter);
      const double saved = cost.bytes[letter.level] - cost.bytes[level];
      const double spent = std::max(0.0, cost.seconds[level] - cost.seconds[letter.level]);
      // Where nothing is saved in one block alone the level still comes, last.
      const double price = saved > 0 ? spent / saved : std::numeric_limits<double>::max();
      if (best == nullptr || price < best_price) best = &letter, best_level = level, best_price = price;
    }
  best->below_ceiling = need == Need::ceiling;
  set(*best, best_level, reason_of(need) + ", and this costs the least time per byte");
}

double AutoRecompute::kept_bytes() {
  double bytes = 0;
  for (const recipe::BlockType& type : recipe::block_types(recipe_.model))
    for (Letter& letter : letters_)
      if (letter.name == type.letter) bytes += static_cast<double>(type.blocks) * cost_of(letter).bytes[letter.level];
  return bytes;
}

void AutoRecompute::raise_all(recipe::RecomputeLevel level, Need need) {
  const size_t least = level_of(level);
  const std::string why = least == kFull ? "no level is enough; this needs the least"
                                         : reason_of(need) + ", and full recompute of all needs more";
  for (Letter& letter : letters_) {
    if (letter.level >= least) continue;
    letter.below_ceiling = need == Need::ceiling;
    set(letter, least, why);
  }
}

std::string to_text(std::span<const RecomputeChoice> choices) {
  std::vector<std::pair<std::string, std::vector<char>>> alike;  // by what is said of them
  for (const RecomputeChoice& choice : choices) {
    const std::string said = fmt::format("{} ({})", base::text_of(choice.level), choice.why);
    const auto at = std::ranges::find(alike, said, [](const auto& entry) { return entry.first; });
    (at == alike.end() ? alike.emplace_back(said, std::vector<char>{}) : *at).second.push_back(choice.letter);
  }
  std::vector<std::string> parts;
  for (const auto& [said, letters] : alike) parts.push_back(fmt::format("{} {}", fmt::join(letters, ", "), said));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace megacpp::fit
