// SPDX-License-Identifier: Apache-2.0
#include "megacpp/fit/ladder.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/base/error.h"
#include "megacpp/memory/chip_fit.h"
#include "megacpp/memory/report.h"
#include "megacpp/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using memory::human_bytes;

// What the worst chip holds in roles that the rung leaves alone, with the program's own code.
int64_t untouched_bytes(const Estimate& estimate, const Rung& rung) {
  int64_t bytes = estimate.fit.worst().code;
  for (const memory::Item& item : estimate.worst_memory().items)
    if (!rung.reduces(item.role)) bytes += item.bytes;
  return bytes;
}

std::string untouched_text(const Estimate& estimate, const Rung& rung) {
  std::string text;
  for (const memory::RoleBytes& role : memory::bytes_by_role(estimate.worst_memory()))
    if (!rung.reduces(role.role))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ir::role_name(role.role), human_bytes(role.bytes));
  if (const int64_t code = estimate.fit.worst().code; code > 0)
    text += fmt::format("{}code {}", text.empty() ? "" : ", ", human_bytes(code));
  return text;
}

/// What `plans` makes; nothing where the recipe is refused, of which `refused` is told.
template <typename Plans>
auto unless_refused(const Plans& plans, const std::function<void(const base::Error&)>& refused = {})
    -> std::optional<decltype(plans())> {
  try {
    return plans();
  } catch (const base::Error& error) {
    if (base::class_of(error.code()) != base::ErrorClass::user) throw;
    if (refused) refused(error);
    return std::nullopt;
  }
}

bool is_below_ceiling(const Estimate& estimate) {
  return std::ranges::any_of(estimate.recompute, &RecomputeChoice::below_ceiling);
}

plan::Changes levels_of(const Estimate& estimate) {
  plan::Changes levels;
  for (const RecomputeChoice& choice : estimate.recompute)
    levels.push_back({recipe::recompute_key(choice.letter), choice.level});
  return levels;
}

class LadderWalk {
 public:
  LadderWalk(const Estimate& requested, const MakeEstimate& make_estimate, const Ceiling& ceiling)
      : make_estimate_(make_estimate), ceiling_(ceiling), recipe_(requested.requested()), now_(&requested) {
    path_.least_needed = needed();
  }

  LadderPath run() {
    rungs_ = rungs_of(recipe_.ladder);
    go_down(&LadderWalk::cannot_help_alone);
    if (!path_.found && was_skipped_) go_down(&LadderWalk::cannot_help_with_others);
    if (!path_.found) {
      path_.rung = rungs_.size() + 1;
      find_least();
    }
    return std::move(path_);
  }

 private:
  int64_t needed() const { return now_->fit.worst().needed(); }
  /// What the worst chip must not exceed.
  std::optional<int64_t> bar(const Estimate& estimate) const {
    const std::optional<int64_t> limit = estimate.fit.worst().limit;
    if (ceiling_.bytes == INT64_MAX) return limit;
    return std::min(limit.value_or(INT64_MAX), ceiling_.bytes - 1);
  }
  bool fits(const Estimate& estimate) const { return fit::fits(estimate, ceiling_); }
  Estimate estimate_of(const recipe::Recipe& recipe) const { return make_estimate_(recipe, ceiling_); }

  using WhyNot = std::optional<std::string> (LadderWalk::*)(const Rung&) const;

  void go_down(WhyNot why_not) {
    for (size_t r = 0; r < rungs_.size() && !path_.found; ++r) {
      rung_ = r + 1;
      const Rung& rung = *rungs_[r];
      const size_t noted = path_.attempts.size();
      if (const std::optional<std::string> why = (this->*why_not)(rung)) {
        note(rung, {}, Verdict::skipped, *why);
        was_skipped_ = true;
      } else {
        rung.offers == Offers::steps ? take_steps(rung) : take_one(rung);
        if (path_.attempts.size() == noted) note(rung, {}, Verdict::skipped, "nothing is left to change");
      }
    }
  }

  std::optional<std::string> cannot_help_alone(const Rung& rung) const {
    const int64_t untouched = untouched_bytes(*now_, rung);
    const std::optional<int64_t> most = bar(*now_);
    if (!most || untouched <= *most) return std::nullopt;
    return fmt::format("{} alone need {} of {}, and this leaves them as they are", untouched_text(*now_, rung),
                       human_bytes(untouched), human_bytes(*most));
  }

  // What this rung leaves may still be made smaller by another.
  std::optional<std::string> cannot_help_with_others(const Rung& rung) const {
    const auto touches_the_rest = [&](const Rung* other) {
      return other != &rung && !other->changes(now_->recipe).empty() &&
             std::ranges::any_of(now_->worst_memory().items, [&](const memory::Item& item) {
               return !rung.reduces(item.role) && other->reduces(item.role);
             });
    };
    return std::ranges::any_of(rungs_, touches_the_rest) ? std::nullopt : cannot_help_alone(rung);
  }

  // Offers until it fits or nothing more is offered. One that saves no bytes is not kept.
  void take_steps(const Rung& rung) {
    std::vector<plan::Changes> useless;
    for (;;) {
      std::vector<plan::Changes> offers = rung.changes(now_->recipe);
      std::erase_if(offers,
                    [&](const plan::Changes& offer) { return std::ranges::find(useless, offer) != useless.end(); });
      if (offers.empty()) return;
      if (!attempt(rung, offers.front())) useless.push_back(offers.front());
      if (path_.found) return;
    }
  }

  // The first layout that fits; failing that, the smallest, if it saves bytes at all.
  void take_one(const Rung& rung) {
    std::optional<Estimate> best;
    plan::Changes best_changes;
    for (const plan::Changes& offer : rung.changes(recipe_)) {
      std::optional<Estimate> estimate = tried(rung, offer);
      if (!estimate) continue;
      const int64_t bytes = estimate->fit.worst().needed();
      if (fits(*estimate)) return keep(rung, offer, std::move(*estimate));
      note(rung, offer, Verdict::not_enough, "", &*estimate);
      if (bytes < needed() && (!best || bytes < best->fit.worst().needed()))
        best = std::move(estimate), best_changes = offer;
    }
    if (best) keep(rung, best_changes, std::move(*best));
  }

  /// Whether it was kept.
  bool attempt(const Rung& rung, const plan::Changes& offer) {
    std::optional<Estimate> estimate = tried(rung, offer);
    if (!estimate) return false;
    if (!fits(*estimate)) {
      const bool helps = estimate->fit.worst().needed() < needed();
      note(rung, offer, Verdict::not_enough, helps ? "" : "it saves no bytes", &*estimate);
      if (!helps) return false;
    }
    keep(rung, offer, std::move(*estimate));
    return true;
  }

  std::optional<Estimate> tried(const Rung& rung, const plan::Changes& offer) {
    const auto refused = [&](const base::Error& error) {
      note(
          rung, offer, Verdict::refused,
          fmt::format("{}: {}, wanted {}", base::code_name(error.code()), error.problem().got, error.problem().wanted));
    };
    return unless_refused([&] { return estimate_of(with_changes(recipe_, offer)); }, refused);
  }

  // How far down the rungs lead at all, those included that could not have helped: what is written down as the
  // frontier. Of each only the far end is planned. Layouts come first: with fewer copies the batch can be smaller.
  void find_least() {
    plan::Changes changes = path_.changes;
    for (const Offers offers : {Offers::alternatives, Offers::steps})
      for (const Rung* rung : rungs_)
        if (rung->offers == offers) take_last(*rung, changes);
  }

  void take_last(const Rung& rung, plan::Changes& changes) {
    std::optional<Estimate> estimate;
    for (std::vector<Step> steps = steps_down(rung); !steps.empty() && !estimate; steps.pop_back()) {
      estimate = unless_refused([&] { return estimate_of(steps.back().recipe); });
      if (!estimate || estimate->fit.worst().needed() >= path_.least_needed) continue;
      path_.least_needed = estimate->fit.worst().needed();
      path_.least_changes = changes = plan::merged(std::move(changes), steps.back().changes);
      recipe_ = std::move(steps.back().recipe);
    }
  }

  struct Step {
    recipe::Recipe recipe;
    plan::Changes changes;  // up to it
  };
  std::vector<Step> steps_down(const Rung& rung) const {
    std::vector<Step> steps;
    const auto take = [&](const Step& from, const plan::Changes& offer) {
      std::optional<recipe::Recipe> next = unless_refused([&] { return with_changes(from.recipe, offer); });
      if (next) steps.push_back({std::move(*next), plan::merged(from.changes, offer)});
      return next.has_value();
    };
    if (rung.offers == Offers::alternatives) {
      for (const plan::Changes& offer : rung.changes(recipe_)) take({recipe_, {}}, offer);
      return steps;
    }
    for (Step now{recipe_, {}};; now = steps.back()) {
      const std::vector<plan::Changes> offers = rung.changes(now.recipe);
      if (offers.empty() || !take(now, offers.front())) return steps;
    }
  }

  void keep(const Rung& rung, const plan::Changes& offer, Estimate estimate) {
    recipe_ = estimate.requested();
    path_.changes = plan::merged(std::move(path_.changes), offer);
    path_.changes_experiment |= rung.changes_experiment;
    path_.rung = std::max(path_.rung, rung_);
    kept_ = std::move(estimate);
    now_ = &*kept_;
    if (needed() < path_.least_needed) path_.least_needed = needed(), path_.least_changes = path_.changes;
    if (!fits(*kept_)) return;
    // Planned again without the ceiling these would be lower.
    const plan::Changes levels = is_below_ceiling(*kept_) ? levels_of(*kept_) : plan::Changes{};
    path_.changes = plan::merged(std::move(path_.changes), levels);
    note(rung, plan::merged(offer, levels), Verdict::fits, "", &*kept_);
    path_.found = std::move(kept_);
    now_ = &*path_.found;
  }

  void note(const Rung& rung, const plan::Changes& changes, Verdict verdict, std::string reason,
            const Estimate* estimate = nullptr) {
    path_.attempts.push_back({.rung = rung_,
                              .name = std::string(rung.name),
                              .changes = changes,
                              .verdict = verdict,
                              .reason = std::move(reason),
                              .needed = estimate ? estimate->fit.worst().needed() : 0,
                              .limit = estimate ? bar(*estimate) : std::nullopt,
                              .changes_experiment = rung.changes_experiment});
  }

  const MakeEstimate& make_estimate_;
  const Ceiling ceiling_;
  recipe::Recipe recipe_;  // as requested, with the changes taken: what is left to planning is decided anew
  std::optional<Estimate> kept_;
  const Estimate* now_;  // what the next rung starts from
  std::vector<const Rung*> rungs_;
  size_t rung_ = 0;
  bool was_skipped_ = false;
  LadderPath path_;
};

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::not_enough:
      return "not enough";
    case Verdict::skipped:
      return "skipped";
    case Verdict::refused:
      return "refused";
  }
  return "";
}

LadderPath walk_ladder(const Estimate& requested, const MakeEstimate& make_estimate, const Ceiling& ceiling) {
  return LadderWalk(requested, make_estimate, ceiling).run();
}

Ceiling ceiling_below(int64_t needed, const memory::OomFacts& facts) {
  if (!facts.wanted || !facts.limit || *facts.wanted <= *facts.limit || facts.is_injected) return {needed};
  if (facts.cls != memory::OomClass::compile) return {needed - (*facts.wanted - *facts.limit)};
  const double share = static_cast<double>(*facts.limit) / static_cast<double>(*facts.wanted);
  return {static_cast<int64_t>(static_cast<double>(needed) * share)};
}

std::string to_text(const plan::Changes& changes) {
  return fmt::format("{}", fmt::join(plan::overrides_of(changes), " "));
}

std::string to_text(const Attempt& attempt) {
  std::string text = fmt::format("rung {} {:<10} {:<11}", attempt.rung, attempt.name, verdict_name(attempt.verdict));
  if (!attempt.changes.empty()) text += " " + to_text(attempt.changes);
  if (attempt.needed > 0) text += ": " + human_bytes(attempt.needed);
  if (attempt.needed > 0 && attempt.limit) text += " of " + human_bytes(*attempt.limit);
  if (!attempt.reason.empty()) text += (attempt.changes.empty() ? " " : "; ") + attempt.reason;
  if (attempt.changes_experiment && attempt.verdict == Verdict::fits) text += "; this is another experiment";
  return text;
}

std::string to_text(const LadderPath& path) {
  std::string text;
  for (const Attempt& attempt : path.attempts) text += "  " + to_text(attempt) + "\n";
  if (path.found) return text;
  return text + fmt::format("  rung {} stop       nothing fits; the least is {}{}\n", path.rung,
                            human_bytes(path.least_needed),
                            path.least_changes.empty() ? "" : " with " + to_text(path.least_changes));
}

}  // namespace megacpp::fit
