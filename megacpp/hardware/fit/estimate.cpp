// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/estimate.h"

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/thread_pool.h"
#include "megacpp/hardware/fit/deep_plan.h"
#include "megacpp/hardware/fit/hardware_target.h"
#include "megacpp/hardware/fit/signature.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/plan/degrees.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

void require_all_devices(const plan::PlannedRecipe& planned, const hw::Slice& slice) {
  MEGACPP_REQUIRE(
      planned.plan().chips == slice.devices(), E1401,
      {.where = "layout of " + planned.recipe().name,
       .got = "a mesh of " + std::to_string(planned.plan().chips) + " chips",
       .wanted = std::to_string(slice.devices()) + ", as " + slice.name + " has",
       .next = "change the degrees or the hardware, or leave layout.data_parallel and layout.chips out: data_parallel "
               "then fills the slice"});
}

Estimate estimate_of(const AutoRecompute& recompute, const Assumptions& assumptions) {
  const recipe::Recipe& recipe = recompute.recipe();
  Estimate estimate{.planned = plan::PlannedRecipe(recipe),
                    .signature = signature_of(recipe, assumptions),
                    .recompute = recompute.choices(),
                    .lane = assumptions.lane,
                    .compiled = {},
                    .correction = {},
                    .fit = {},
                    .time = {}};
  require_all_devices(estimate.planned, assumptions.slice);
  const schedule::Target target = target_on(assumptions);
  estimate.tiers = target.tiers;
  if (std::optional<DeepPlan> deep = deep_plan(estimate.planned, assumptions, target)) {
    estimate.compiled = std::move(deep->compiled);
    estimate.reserved = std::move(deep->reserved);
    estimate.time = std::move(deep->time);
    estimate.shallow = std::move(deep->shallow);
  } else {
    estimate.compiled = compile::compile_training(
        estimate.plan(), target, {.verify = compile::Verify::result, .after_pass = assumptions.after_pass});
    estimate.reserved = reservations_of({estimate.planned, estimate.compiled, target}, assumptions).value();
    if (assumptions.has_rates) estimate.time = predict_step(estimate.compiled, assumptions, recipe.train.precision);
  }
  estimate.correction = catalog::correction_by_others(assumptions.peaks, estimate.signature);
  Hosts hosts = assumptions.hosts;
  hosts.keep_snapshot = hosts.keep_snapshot && recipe.checkpoint.saves();
  estimate.fit = fit_report(estimate.compiled, assumptions.slice,
                            {.of_chips = assumptions.limits, .pool_share = assumptions.pool_share}, estimate.reserved,
                            {.of_parts = estimate.correction, .letters = letter_families(recipe.model)}, hosts);
  estimate.time_correction = catalog::correction_by_others(assumptions.steps, estimate.signature);
  return estimate;
}

/// How sure a plan is to be, and what it must stay below.
struct Goal {
  FitVerdict reach;
  const Ceiling& ceiling;

  /// Whether it may be taken where none is as sure.
  bool is_enough(const Estimate& estimate) const {
    const ChipGroup& worst = estimate.fit.worst();
    // What is close is asked of a compiler that can be at once; elsewhere more recompute comes first.
    const bool may_be_close = reach == FitVerdict::close && worst.reservation.is_asked_first;
    const bool has_room = may_be_close || worst.free_bytes().value_or(0) >= 0;
    return has_room && may_fit(estimate, ceiling);
  }
  bool is_met(const Estimate& estimate, FitVerdict verdict) const {
    return estimate.fit.verdict() <= verdict && is_enough(estimate);
  }
  /// Surer, or as sure and needs less.
  bool is_better(const Estimate& estimate, const Estimate& than) const {
    const auto rank = [this](const Estimate& one) {
      return std::tuple(!is_enough(one), one.fit.verdict(), one.fit.worst().needed());
    };
    return rank(estimate) < rank(than);
  }
  /// What more recompute is for, of a plan that needs some.
  AutoRecompute::Need need_of(const Estimate& estimate) const {
    if (!estimate.fit.may_fit()) return AutoRecompute::Need::limit;
    return may_fit(estimate, ceiling) ? AutoRecompute::Need::unsure : AutoRecompute::Need::ceiling;
  }
};

/// Estimates of several, on as many threads as there may be.
std::vector<Estimate> estimates_of(const std::vector<AutoRecompute>& levels, const Assumptions& assumptions) {
  std::vector<Estimate> estimates(levels.size());
  std::vector<std::exception_ptr> failed(levels.size());
  base::ThreadPool pool(std::min(assumptions.threads, static_cast<int>(levels.size())));
  pool.for_each(std::ssize(levels), [&](int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    try {
      estimates[at] = estimate_of(levels[at], assumptions);
    } catch (...) {
      failed[at] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : failed)
    if (error) std::rethrow_exception(error);
  return estimates;
}

/// How far recompute goes: full for all letters or, where that is not enough, selective. Full mostly needs less, but
/// what it makes again can be alive beside gradients that are in flight.
struct Ends {
  Estimate best;
  bool full_needs_least = true;
};
AutoRecompute with_all(AutoRecompute start, recipe::RecomputeLevel level, AutoRecompute::Need need) {
  start.raise_all(level, need);
  return start;
}

/// `full` where it was estimated already.
Ends find_ends(const AutoRecompute& start, AutoRecompute::Need need, std::optional<Estimate> full,
               const Assumptions& assumptions, const Goal& goal) {
  Ends ends{.best = full ? std::move(*full)
                         : estimate_of(with_all(start, recipe::RecomputeLevel::full, need), assumptions)};
  if (goal.is_met(ends.best, goal.reach) || !start.can_raise(recipe::RecomputeLevel::selective)) return ends;
  Estimate selective = estimate_of(with_all(start, recipe::RecomputeLevel::selective, need), assumptions);
  ends.full_needs_least = ends.best.fit.worst().needed() <= selective.fit.worst().needed();
  if (goal.is_better(selective, ends.best)) ends.best = std::move(selective);
  return ends;
}

/// All levels from `start` to full for every letter.
std::vector<AutoRecompute> levels_from(const AutoRecompute& start, AutoRecompute::Need need) {
  std::vector<AutoRecompute> levels = {start};
  while (levels.back().can_raise()) {
    AutoRecompute next = levels.back();
    next.raise(need);
    levels.push_back(std::move(next));
  }
  return levels;
}

/// The first of the levels, which get ever smaller, that should need no more than `wanted` where the first needs
/// `first` and the last `last`: as much less as blocks keep less.
size_t guessed_level(std::vector<AutoRecompute>& levels, double first, double last, double wanted) {
  const double kept_first = levels.front().kept_bytes(), saved = kept_first - levels.back().kept_bytes();
  if (saved <= 0 || last >= first) return levels.size() / 2;
  const auto is_enough = [&](AutoRecompute& level) {
    return first - (first - last) * (kept_first - level.kept_bytes()) / saved <= wanted;
  };
  const auto found = std::ranges::find_if(levels, is_enough);
  return static_cast<size_t>(found - levels.begin());
}

/// Expected bytes below which the most that may be needed is within the limit.
double wanted_bytes_of(const Estimate& estimate, FitVerdict verdict) {
  const ChipGroup& worst = estimate.fit.worst();
  const double needed = static_cast<double>(worst.needed());
  const double counted = static_cast<double>(verdict == FitVerdict::fits ? worst.reservation.most : worst.needed());
  return static_cast<double>(worst.limit.bytes.value_or(worst.needed())) * needed / std::max(1.0, counted);
}

/// By bisection: the least recompute that is as sure as `verdict`, else the best there was. `none` is of the first of
/// the levels and not enough, `best` of the ends.
Estimate bisected(std::vector<AutoRecompute> levels, Estimate none, Estimate best, FitVerdict verdict,
                  const Assumptions& assumptions, const Goal& goal) {
  size_t below = 0, above = levels.size();  // the former is not enough, the latter is or there is none
  size_t next = guessed_level(levels, static_cast<double>(none.fit.worst().needed()),
                              static_cast<double>(best.fit.worst().needed()), wanted_bytes_of(none, verdict));
  if (goal.is_better(none, best)) best = std::move(none);
  std::optional<Estimate> enough;
  if (best.recipe() == levels.back().recipe() && goal.is_met(best, verdict)) {
    above = levels.size() - 1;
    enough = best;
  }
  while (above - below > 1) {
    next = std::clamp(next, below + 1, above - 1);
    std::vector<size_t> tried = {next};  // and, where the guess is good, the one that shows it
    if (next > below + 1) tried.insert(tried.begin(), next - 1);
    std::vector<AutoRecompute> wanted;
    for (const size_t at : tried) wanted.push_back(levels[at]);
    std::vector<Estimate> found = estimates_of(wanted, assumptions);
    for (size_t i = tried.size(); i-- > 0;) {
      if (tried[i] < above && goal.is_met(found[i], verdict)) {
        above = tried[i];
        enough = std::move(found[i]);
      } else {
        below = std::max(below, tried[i]);
        if (goal.is_better(found[i], best)) best = std::move(found[i]);
        break;
      }
    }
    next = below + (above - below) / 2;
  }
  return enough ? std::move(*enough) : std::move(best);
}

/// With as much recompute as the goal takes.
Estimate with_recompute(const recipe::Recipe& recipe, const Assumptions& assumptions, const Goal& goal) {
  AutoRecompute recompute(recipe, assumptions);
  std::vector<AutoRecompute> first = {recompute};
  // Where another thread has nothing to do the far end is looked at too.
  const bool is_idle = assumptions.threads > 1 && !assumptions.says_why;
  if (is_idle && recompute.can_raise())
    first.push_back(with_all(recompute, recipe::RecomputeLevel::full, AutoRecompute::Need::limit));
  std::vector<Estimate> estimates = estimates_of(first, assumptions);
  Estimate estimate = std::move(estimates[0]);
  if (goal.is_met(estimate, goal.reach) || !recompute.can_raise()) return estimate;
  if (estimate.fit.worst().may_fit() && !estimate.fit.fits_host()) return estimate;  // no level leaves a host more
  // What is out of reach is found by these, not by a plan for each level.
  std::optional<Estimate> full;
  if (estimates.size() > 1) full = std::move(estimates[1]);
  Ends ends = find_ends(recompute, goal.need_of(estimate), std::move(full), assumptions, goal);
  Estimate best = std::move(ends.best);
  if (!goal.is_enough(best) && ends.full_needs_least) return goal.is_better(best, estimate) ? best : estimate;
  const FitVerdict reachable = std::max(goal.reach, best.fit.verdict());
  if (!assumptions.says_why && !goal.is_met(estimate, reachable)) {
    std::vector<AutoRecompute> levels = levels_from(recompute, goal.need_of(estimate));
    return bisected(std::move(levels), std::move(estimate), std::move(best), reachable, assumptions, goal);
  }
  while (!goal.is_met(estimate, reachable)) {
    const AutoRecompute::Need need = goal.need_of(estimate);
    if (goal.is_better(estimate, best)) best = std::move(estimate);
    if (!recompute.can_raise()) return best;
    recompute.raise(need);
    estimate = estimate_of(recompute, assumptions);
  }
  return estimate;
}

/// What holds on the lane of unrolled blocks.
Assumptions on_unrolled_lane(const Assumptions& assumptions) {
  Assumptions there = assumptions;
  UnrolledLane& unrolled = there.unrolled.value();
  there.lane = std::move(unrolled.lane);
  there.features = std::move(unrolled.features);
  there.peaks = std::move(unrolled.peaks);
  there.steps = std::move(unrolled.steps);
  there.unrolled.reset();
  return there;
}

/// With blocks unrolled and no more recompute than costs nothing.
Estimate without_loops(recipe::Recipe recipe, const Assumptions& assumptions) {
  recipe.xla.loops = recipe::XlaLoops::off;
  const Assumptions there = on_unrolled_lane(assumptions);
  return estimate_of(AutoRecompute(recipe, there), there);
}

bool runs_own_kernels(const Assumptions& assumptions) {
  return assumptions.slice.chip.is_virtual() || assumptions.kernels_run_there;
}

}  // namespace

double Estimate::step_seconds() const {
  return time_correction.samples == 0 ? time.seconds() : time_correction.corrected(parts_of(time));
}

recipe::Recipe Estimate::requested() const {
  recipe::Recipe requested = recipe();
  for (const RecomputeChoice& choice : recompute)
    recipe::set_recompute_level(requested, choice.letter, recipe::RecomputeLevel::automatic);
  if (loops) requested.xla.loops = recipe::XlaLoops::automatic;
  return requested;
}

recipe::Recipe with_changes(const recipe::Recipe& recipe, const plan::Changes& changes) {
  recipe::Recipe changed = recipe;
  recipe::apply_overrides(changed, plan::overrides_of(changes));
  return changed;
}

plan::Changes filling_changes(const recipe::Recipe& recipe, int64_t devices) {
  const recipe::Layout& layout = recipe.layout;
  const int64_t others = plan::product_of_degrees(layout);
  if (layout.chips > 0 || layout.data_parallel > 1 || others >= devices || devices % others != 0) return {};
  const int64_t data = devices / others;
  plan::Changes changes = {{"layout.data_parallel", std::to_string(data)}};
  const int64_t apart = data * layout.expert_parallel;  // chips that have sequences of their own
  int64_t batch = recipe.train.batch, micro_steps = recipe.train.micro_steps;
  while (batch < apart && micro_steps % 2 == 0) batch *= 2, micro_steps /= 2;
  if (batch == recipe.train.batch) return changes;
  changes.push_back({"train.batch", std::to_string(batch)});
  changes.push_back({"train.micro_steps", std::to_string(micro_steps)});
  return changes;
}

std::optional<std::vector<Reservation>> reservations_of(const StepProgram& step, const Assumptions& assumptions) {
  const hw::Chip device = hw::device_of(assumptions.slice.chip);
  std::vector<Reservation> reservations;
  StepProgram of_stage = step;
  for (; of_stage.stage < step.compiled.stages.size(); ++of_stage.stage) {
    std::optional<Reservation> reservation = reservation_of(assumptions.reserve, of_stage, device);
    if (!reservation) return std::nullopt;
    reservations.push_back(std::move(*reservation));
  }
  return reservations;
}

schedule::Target target_on(const Assumptions& assumptions) {
  if (runs_own_kernels(assumptions)) return assumptions.kernels;
  return hardware_target(hw::device_of(assumptions.slice.chip), assumptions.kernels, assumptions.xla_forms);
}

StepTime predict_step(const compile::Compiled& compiled, const Assumptions& assumptions, ir::DType precision) {
  return predict_step(compiled, assumptions.slice, precision,
                      {.has_loops = assumptions.lane.has_loops(),
                       .compiler = assumptions.xla_forms ? Compiler::xla : Compiler::ours,
                       .kernels = runs_own_kernels(assumptions) ? &assumptions.kernels : nullptr});
}

bool may_fit(const Estimate& estimate, const Ceiling& ceiling) {
  return estimate.fit.may_fit() && estimate.fit.worst().needed() < ceiling.bytes;
}

catalog::Signature signature_of(const recipe::Recipe& recipe, const Assumptions& assumptions) {
  return signature_of(recipe, assumptions.slice.name, assumptions.build, assumptions.features);
}

std::string loops_text(const Estimate& estimate) {
  if (!estimate.is_unrolled()) return "";
  return fmt::format("unrolled (with blocks in loops a chip needs {})",
                     memory::human_bytes(estimate.loops->looped_bytes));
}

Estimate make_estimate(const recipe::Recipe& recipe, const Assumptions& assumptions, FitVerdict reach,
                       const Ceiling& ceiling) {
  recipe::require_supported(assumptions.cannot_run, assumptions.lane.backend, recipe);
  const Goal goal{reach, ceiling};
  // A ladder may have decided it since the assumptions were made.
  if (assumptions.unrolled && recipe.xla.loops == recipe::XlaLoops::off)
    return with_recompute(recipe, on_unrolled_lane(assumptions), goal);
  Estimate looped = with_recompute(recipe, assumptions, goal);
  if (!assumptions.unrolled || recipe.xla.loops == recipe::XlaLoops::on) return looped;
  const LoopsChoice choice{.looped_bytes = looped.fit.worst().needed()};
  recipe::Xla with_loops = recipe.xla;
  with_loops.loops = recipe::XlaLoops::on;
  looped.planned.set_xla(std::move(with_loops));
  looped.loops = choice;
  if (goal.is_met(looped, reach)) return looped;
  Estimate unrolled = without_loops(recipe, assumptions);
  const bool is_surer = !goal.is_enough(looped) || unrolled.fit.verdict() < looped.fit.verdict();
  if (!goal.is_enough(unrolled) || !is_surer) return looped;
  unrolled.loops = choice;
  return unrolled;
}

}  // namespace megacpp::fit
