// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "megacpp/core/base/human_seconds.h"

namespace megacpp::catalog {
namespace {

// What another build learnt says so.
std::string by_text(const Remembered& known) {
  return known.other_build ? " by another build or machine (" + to_text(*known.other_build) + ")" : "";
}

std::string failure_text(const Remembered& known) {
  const Outcome& outcome = *known.last;
  std::string text = "failed on " + outcome.at + by_text(known);
  if (!outcome.phase.empty()) text += " at " + outcome.phase;
  if (!outcome.oom_class.empty()) text += fmt::format(" ({} out of memory)", outcome.oom_class);
  if (!outcome.chip.empty()) text += " on " + outcome.chip;
  return text;
}

/// Whether a time that was measured holds for the machine of `own`.
bool is_same_machine(const Remembered& known, const Build& own) {
  return !known.other_build ||
         (known.other_build->threads == own.threads && known.other_build->processor == own.processor);
}

Ranked of_known(size_t index, const Remembered& known, const Build& own, std::optional<double> predicted) {
  const Outcome& last = *known.last;
  if (!last.fits)
    return {.candidate = index, .standing = Standing::failed, .seconds = {}, .reason = failure_text(known)};
  const std::optional<double> measured = is_same_machine(known, own) ? known.step_seconds : std::nullopt;
  return {.candidate = index,
          .standing = Standing::runs,
          .seconds = measured ? measured : predicted,
          .is_measured = measured.has_value(),
          .reason = measured ? fmt::format("ran on {}{} at {} a step", last.at, by_text(known),
                                           base::human_seconds(*measured))
                             : fmt::format("fitted on {}{}, step not timed{}", last.at, by_text(known),
                                           known.step_seconds ? " on this machine" : "")};
}

Ranked of_unknown(size_t index, const Candidate& candidate, std::optional<double> predicted,
                  const Correction& correction) {
  if (!candidate.fits)
    return {.candidate = index,
            .standing = Standing::too_large,
            .seconds = {},
            .reason = candidate.why_not.empty() ? "does not fit by estimate" : candidate.why_not};
  Ranked ranked = {.candidate = index, .standing = Standing::unknown, .seconds = predicted, .reason = "never tried"};
  if (!predicted) return ranked;
  ranked.reason += fmt::format(", {} a step predicted", base::human_seconds(*predicted));
  if (correction.method != Method::none)
    ranked.reason +=
        fmt::format(" (corrected by {} measured, {} of this build)", correction.samples, correction.own_samples);
  return ranked;
}

/// A failure of another build is judged by estimate again.
bool is_trusted(const std::optional<Remembered>& known) {
  return known && known->last && !(known->other_build && !known->last->fits);
}

/// Having run says nothing about how fast something is: what ran is not better than what might be faster.
int group_of(Standing standing) { return standing == Standing::failed ? 2 : standing == Standing::too_large ? 1 : 0; }

}  // namespace

std::vector<Ranked> rank(const Catalog& catalog, const std::string& lane, const std::vector<Candidate>& candidates) {
  if (candidates.empty()) return {};
  const Build& own = candidates.front().signature.build;
  const Correction correction = catalog.correction(lane, kStepSeconds, own);
  std::vector<Ranked> order;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    std::optional<double> predicted;
    if (!candidate.step_seconds.empty()) predicted = correction.corrected(candidate.step_seconds);
    const std::optional<Remembered> known = catalog.remembered(candidate.signature);
    order.push_back(is_trusted(known) ? of_known(i, *known, own, predicted)
                                      : of_unknown(i, candidate, predicted, correction));
    if (known && known->last && !is_trusted(known)) order.back().reason += "; " + failure_text(*known);
  }
  const auto seconds = [](const Ranked& ranked) {
    return ranked.seconds.value_or(std::numeric_limits<double>::infinity());
  };
  std::stable_sort(order.begin(), order.end(), [&](const Ranked& a, const Ranked& b) {
    const int group_a = group_of(a.standing), group_b = group_of(b.standing);
    return group_a != group_b ? group_a < group_b : seconds(a) < seconds(b);
  });
  return order;
}

}  // namespace megacpp::catalog
