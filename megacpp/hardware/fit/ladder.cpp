// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/ladder.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/program/memory/chip_fit.h"
#include "megacpp/program/memory/report.h"
#include "megacpp/program/recipe/block_loops.h"
#include "megacpp/program/recipe/recompute.h"

namespace megacpp::fit {
namespace {

using memory::human_bytes;

// What the worst chip holds in roles that the rung leaves alone, with the program's own code.
int64_t untouched_bytes(const Estimate& estimate, const Rung& rung) {
  int64_t bytes = estimate.fit.worst().reservation.code;
  for (const memory::Item& item : estimate.worst_memory().items)
    if (!rung.reduces(item.role)) bytes += item.bytes;
  return bytes;
}

std::string untouched_text(const Estimate& estimate, const Rung& rung) {
  std::string text;
  for (const memory::RoleBytes& role : memory::bytes_by_role(estimate.worst_memory()))
    if (!rung.reduces(role.role))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", ir::role_name(role.role), human_bytes(role.bytes));
  if (const int64_t code = estimate.fit.worst().reservation.code; code > 0)
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

/// Whether planning decided otherwise than it would without the ceiling.
bool is_below_ceiling(const Estimate& estimate, const Ceiling& ceiling) {
  const bool is_unrolled_for_it = estimate.is_unrolled() && ceiling.bytes < Ceiling{}.bytes;
  return is_unrolled_for_it || std::ranges::any_of(estimate.recompute, &RecomputeChoice::below_ceiling);
}

/// What planning decided, as the recipe would say it.
plan::Changes decided_by(const Estimate& estimate) {
  plan::Changes decided;
  for (const RecomputeChoice& choice : estimate.recompute)
    decided.push_back({recipe::recompute_key(choice.letter), std::string(base::text_of(choice.level))});
  if (estimate.is_unrolled()) decided.push_back({recipe::kLoopsKey, std::string(base::text_of(recipe::XlaLoops::off))});
  return decided;
}

class LadderWalk {
 public:
  LadderWalk(const Estimate& requested, const MakeEstimate& make_estimate, const Ceiling& ceiling)
      : make_estimate_(make_estimate), ceiling_(ceiling), recipe_(requested.requested()), now_(&requested) {
    path_.least_needed = needed();
  }

  LadderPath run() {
    rungs_ = rungs_of(recipe_.ladder);
    layouts_tried_.assign(rungs_.size(), false);
    go_down(&LadderWalk::cannot_help_alone);
    // What one rung has made smaller may let another help that could not, or not so far.
    for (bool again = was_skipped_ || was_kept_; again && !path_.found; again = was_kept_) {
      is_first_pass_ = was_kept_ = false;
      go_down(&LadderWalk::cannot_help_with_others);
    }
    if (!path_.found) find_least();
    if (!path_.found) path_.rung = rungs_.size() + 1;
    return std::move(path_);
  }

 private:
  int64_t needed() const { return now_->fit.worst().needed(); }
  /// What the worst chip must not exceed.
  std::optional<int64_t> bar(const Estimate& estimate) const {
    const std::optional<int64_t> limit = estimate.fit.worst().limit.bytes;
    if (ceiling_.bytes == INT64_MAX) return limit;
    return std::min(limit.value_or(INT64_MAX), ceiling_.bytes - 1);
  }
  /// Close is enough: a compiler that refuses it says by how much, which is the next ceiling.
  bool fits(const Estimate& estimate) const { return may_fit(estimate, ceiling_); }
  Estimate estimate_of(const recipe::Recipe& recipe) const { return make_estimate_(recipe, ceiling_); }

  /// Offers of a rung that were made together.
  struct RungEnd {
    std::vector<plan::Changes> offers;
    std::optional<Estimate> estimate;  // nothing: no offer is legal
  };

  using WhyNot = std::optional<std::string> (LadderWalk::*)(const Rung&) const;

  /// By more than what rounds away in any report: ids of a shorter sequence save no memory.
  static bool is_less(const ChipGroup& less, const ChipGroup& more) {
    constexpr int64_t kLeastPart = 1000;
    return more.needed() - less.needed() > more.needed() / kLeastPart;
  }
  /// What a host cannot hold saves nothing.
  bool saves(const Estimate& estimate) const {
    return estimate.fit.fits_host() && is_less(estimate.fit.worst(), now_->fit.worst());
  }
  bool helps(const Estimate& estimate) const { return fits(estimate) || saves(estimate); }
  /// Whether less was changed for nothing: it leads as far as the other.
  bool is_as_good(const Estimate& milder, const Estimate& other) const {
    return fits(other) ? fits(milder) : !is_less(other.fit.worst(), milder.fit.worst());
  }

  void go_down(WhyNot why_not) {
    for (size_t r = 0; r < rungs_.size() && !path_.found; ++r) {
      rung_ = r + 1;
      const Rung& rung = *rungs_[r];
      const size_t noted = path_.attempts.size();
      if (!is_possible(rung)) {
        skip(rung, "what runs here keeps everything in one memory");
        continue;
      }
      if (const std::optional<std::string> why = (this->*why_not)(rung)) {
        skip(rung, *why);
        was_skipped_ = true;
        continue;
      }
      if (rung.offers == Offers::steps) {
        take_steps(rung);
      } else if (!layouts_tried_[r]) {  // many plans, of which the best was taken
        layouts_tried_[r] = true;
        take_one(rung);
      }
      if (path_.attempts.size() == noted) skip(rung, "nothing is left to change");
    }
  }

  bool is_possible(const Rung& rung) const {
    return !rung.needs || std::ranges::find(now_->tiers, *rung.needs) != now_->tiers.end();
  }

  void skip(const Rung& rung, const std::string& why) {
    if (is_first_pass_) note(rung, {}, Verdict::skipped, why);
  }

  std::optional<std::string> cannot_help_alone(const Rung& rung) const {
    const int64_t untouched = untouched_bytes(*now_, rung);
    const std::optional<int64_t> most = bar(*now_);
    const ChipGroup& worst = now_->fit.worst();  // whose least is what decides
    const double share = static_cast<double>(worst.reservation.least) / static_cast<double>(worst.needed());
    if (!most || share * static_cast<double>(untouched) <= static_cast<double>(*most)) return std::nullopt;
    return fmt::format("{} alone need {} of {}, and this leaves them as they are", untouched_text(*now_, rung),
                       human_bytes(untouched), human_bytes(*most));
  }

  // What this rung leaves may still be made smaller by another.
  std::optional<std::string> cannot_help_with_others(const Rung& rung) const {
    const auto touches_the_rest = [&](const Rung* other) {
      return other != &rung && is_possible(*other) && !other->changes(now_->recipe()).empty() &&
             std::ranges::any_of(now_->worst_memory().items, [&](const memory::Item& item) {
               return !rung.reduces(item.role) && other->reduces(item.role);
             });
    };
    return std::ranges::any_of(rungs_, touches_the_rest) ? std::nullopt : cannot_help_alone(rung);
  }

  // To the end of the rung, unless it fits before. What saves no bytes is not kept; but it may be on the way to what
  // does: recomputing one letter leaves the peak where another one has it.
  void take_steps(const Rung& rung) {
    do take_single_steps(rung);
    while (!path_.found && take_several_steps(rung) && !path_.found);
  }

  // Offer by offer, until none helps what the others have left.
  void take_single_steps(const Rung& rung) {
    std::vector<plan::Changes> useless;
    for (;;) {
      std::vector<plan::Changes> offers = rung.changes(now_->recipe());
      std::erase_if(offers,
                    [&](const plan::Changes& offer) { return std::ranges::find(useless, offer) != useless.end(); });
      if (offers.empty()) return;
      if (!attempt(rung, offers.front())) {
        useless.push_back(offers.front());
      } else if (path_.found) {
        return;
      } else {
        useless.clear();
      }
    }
  }

  /// Where no offer helps alone: as few of them together as help, if all of them do. Whether they were kept.
  bool take_several_steps(const Rung& rung) {
    std::vector<plan::Changes> offers = offers_to_the_end(rung);
    if (offers.size() < 2) return false;
    const RungEnd end = legal_end(std::move(offers));
    if (end.offers.size() < 2) return false;
    if (helps(*end.estimate)) return attempt(rung, together(fewest(end)));
    note(rung, together(end.offers), Verdict::not_enough, "to its end it saves no bytes", &*end.estimate);
    return false;
  }

  /// Its offers but those without which it needs no more; the last ones are given back first.
  std::vector<plan::Changes> fewest(const RungEnd& end) const {
    std::vector<plan::Changes> offers = end.offers;
    for (size_t i = offers.size(); i-- > 0 && offers.size() > 1;) {
      std::vector<plan::Changes> fewer = offers;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const std::optional<Estimate> without = estimate_with(fewer);
      if (without && is_as_good(*without, *end.estimate)) offers = std::move(fewer);
    }
    return offers;
  }

  /// Nothing where they are refused.
  std::optional<Estimate> estimate_with(const std::vector<plan::Changes>& offers) const {
    return unless_refused([&] { return estimate_of(with_changes(recipe_, together(offers))); });
  }

  /// What the rung would offer one after the other, each to what the one before made.
  std::vector<plan::Changes> offers_to_the_end(const Rung& rung) const {
    std::vector<plan::Changes> taken;
    recipe::Recipe at = now_->recipe();
    for (std::vector<plan::Changes> offers = rung.changes(at); !offers.empty(); offers = rung.changes(at)) {
      std::optional<recipe::Recipe> next = unless_refused([&] { return with_changes(at, offers.front()); });
      if (!next) break;
      at = std::move(*next);
      taken.push_back(offers.front());
    }
    return taken;
  }

  /// As many of the first of them as gates allow together.
  RungEnd legal_end(std::vector<plan::Changes> offers) const {
    for (; !offers.empty(); offers.pop_back())
      if (std::optional<Estimate> estimate = estimate_with(offers)) return {std::move(offers), std::move(estimate)};
    return {};
  }

  /// How far it leads; of layouts the first that fits, else the one that needs least of those that save bytes.
  RungEnd far_end(const Rung& rung) const {
    if (rung.offers == Offers::steps) return legal_end(offers_to_the_end(rung));
    RungEnd least;
    const auto bytes = [](const RungEnd& end) { return end.estimate->fit.worst().needed(); };
    for (const plan::Changes& layout : rung.changes(recipe_)) {
      RungEnd end = legal_end({layout});
      if (!end.estimate || !helps(*end.estimate)) continue;
      if (fits(*end.estimate)) return end;
      if (!least.estimate || bytes(end) < bytes(least)) least = std::move(end);
    }
    return least;
  }

  static plan::Changes together(const std::vector<plan::Changes>& offers) {
    plan::Changes all;
    for (const plan::Changes& offer : offers) all = plan::merged(std::move(all), offer);
    return all;
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
      if (saves(*estimate) && (!best || bytes < best->fit.worst().needed()))
        best = std::move(estimate), best_changes = offer;
    }
    if (best) keep(rung, best_changes, std::move(*best));
  }

  /// Whether it was kept.
  bool attempt(const Rung& rung, const plan::Changes& offer) {
    std::optional<Estimate> estimate = tried(rung, offer);
    if (!estimate) return false;
    if (!fits(*estimate)) {
      const bool is_kept = saves(*estimate);
      note(rung, offer, Verdict::not_enough, is_kept ? "" : why_not_kept(estimate->fit), &*estimate);
      if (!is_kept) return false;
    }
    keep(rung, offer, std::move(*estimate));
    return true;
  }

  static std::string why_not_kept(const FitReport& fit) {
    if (fit.fits_host()) return "it saves no bytes";
    return fmt::format("its host has {} for {} of what is offloaded and {} of the snapshot of checkpoints",
                       human_bytes(*fit.host_limit), human_bytes(fit.host_offloaded), human_bytes(fit.host_snapshot));
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
  // frontier. Layouts come first: with fewer copies the batch can be smaller. Should it fit, it is taken.
  void find_least() {
    const plan::Changes taken = path_.changes;
    for (const Offers offers : {Offers::alternatives, Offers::steps})
      for (size_t r = 0; r < rungs_.size() && !path_.found; ++r) {
        rung_ = r + 1;
        if (rungs_[r]->offers == offers && is_possible(*rungs_[r])) take_end(*rungs_[r]);
      }
    if (path_.found) return;
    path_.changes = taken;
    path_.changes_experiment = fit::changes_experiment(taken);
  }

  void take_end(const Rung& rung) {
    const RungEnd end = far_end(rung);
    if (!end.estimate || !helps(*end.estimate)) return;
    RungEnd least = shortest(end);
    keep(rung, together(least.offers), std::move(*least.estimate));
  }

  /// As few of its first steps as lead as far: each saves what the one before did, or more.
  RungEnd shortest(const RungEnd& end) const {
    RungEnd found = end;
    for (size_t too_few = 0; found.offers.size() - too_few > 1;) {
      const size_t middle = (too_few + found.offers.size()) / 2;
      const auto first = end.offers.begin();
      RungEnd some{.offers = {first, first + static_cast<std::ptrdiff_t>(middle)}, .estimate = {}};
      some.estimate = estimate_with(some.offers);
      if (some.estimate && is_as_good(*some.estimate, *end.estimate)) {
        found = std::move(some);
      } else {
        too_few = middle;
      }
    }
    return found;
  }

  void keep(const Rung& rung, const plan::Changes& offer, Estimate estimate) {
    recipe_ = estimate.requested();
    path_.changes = plan::merged(std::move(path_.changes), offer);
    path_.changes_experiment |= rung.changes_experiment;
    path_.rung = std::max(path_.rung, rung_);
    kept_ = std::move(estimate);
    now_ = &*kept_;
    was_kept_ = true;
    if (needed() < path_.least_needed) path_.least_needed = needed(), path_.least_changes = path_.changes;
    if (!fits(*kept_)) return;
    // Planned again without the ceiling recompute would be less, and blocks in loops.
    const plan::Changes decided = is_below_ceiling(*kept_, ceiling_) ? decided_by(*kept_) : plan::Changes{};
    path_.changes = plan::merged(std::move(path_.changes), decided);
    const bool is_close = kept_->fit.verdict() == FitVerdict::close;
    note(rung, plan::merged(offer, decided), is_close ? Verdict::close : Verdict::fits, "", &*kept_);
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
  std::vector<bool> layouts_tried_;  // by rung
  bool is_first_pass_ = true;
  bool was_skipped_ = false;  // a rung
  bool was_kept_ = false;     // a change, in this pass
  LadderPath path_;
};

}  // namespace

LadderPath walk_ladder(const Estimate& requested, const MakeEstimate& make_estimate, const Ceiling& ceiling) {
  return LadderWalk(requested, make_estimate, ceiling).run();
}

Ceiling ceiling_below(int64_t needed, const memory::OomFacts& facts) {
  if (!facts.wanted || !facts.limit || *facts.wanted <= *facts.limit || facts.is_injected) return {needed};
  if (facts.cls != memory::OomClass::compile) return {needed - (*facts.wanted - *facts.limit)};
  const double share = static_cast<double>(*facts.limit) / static_cast<double>(*facts.wanted);
  return {static_cast<int64_t>(static_cast<double>(needed) * share)};
}

}  // namespace megacpp::fit
