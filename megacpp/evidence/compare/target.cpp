// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/target.h"

#include <cmath>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"

namespace megacpp::compare {
namespace {

using stats::Effect;
using stats::Finding;

constexpr double kKept = 0.5;  // of a gain, on the scale of logarithms: less is no survival

std::string axes_text(const Comparison& comparison) {
  return comparison.differences.axes.empty() ? "no difference" : to_text(comparison.differences.axes.front());
}

std::string change_text(const Effect& effect) {
  return fmt::format("{:+.1f} % time a token ({:+.1f} % to {:+.1f} %)", 100 * (effect.ratio - 1),
                     100 * (effect.low - 1), 100 * (effect.high.value_or(effect.ratio) - 1));
}

// The end of the target's interval that lies furthest in the direction of the gain, as a share of the gain.
double most_kept(const Effect& trial, const Effect& target) {
  const double end = trial.finding == Finding::lower ? target.low : target.high.value_or(target.ratio);
  return std::log(end) / std::log(trial.ratio);
}

Survival judge(const Effect& trial, const Effect& target) {
  if (trial.finding != Finding::lower && trial.finding != Finding::higher) return Survival::no_gain;
  if (target.finding == Finding::too_short) return Survival::undecided;
  if (target.finding == trial.finding) return most_kept(trial, target) < kKept ? Survival::lost : Survival::survived;
  if (target.finding != Finding::no_difference) return Survival::reversed;
  return most_kept(trial, target) < kKept ? Survival::lost : Survival::undecided;
}

}  // namespace

TargetAnswer on_target(const Comparison& trial, const Comparison& target) {
  MEGACPP_CHECK(trial.effect && target.effect) << "both comparisons have a result";
  MEGACPP_REQUIRE(trial.differences.axes == target.differences.axes, E4001,
                  {.where = "--target",
                   .got = axes_text(target),
                   .wanted = "the difference of the other two runs: " + axes_text(trial),
                   .next = "run the target shape with and without exactly that change"});
  MEGACPP_REQUIRE(trial.shape != target.shape, E1007,
                  {.where = "--target",
                   .got = "the shape of the other runs: " + target.shape,
                   .wanted = "runs on another shape, the one that a gain is wanted for",
                   .next = "run the target shape with and without the change, or leave --target out"});
  const Survival survival = judge(*trial.effect, *target.effect);
  const std::string sentence =
      fmt::format("{}: {} on the shape it was tried on, {} on the target", base::text_of(survival),
                  change_text(*trial.effect), change_text(*target.effect));
  return {.survival = survival, .sentence = sentence};
}

}  // namespace megacpp::compare
