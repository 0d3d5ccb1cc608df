// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/stats/effect.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/counted.h"
#include "megacpp/core/base/error.h"
#include "megacpp/core/stats/series_mean.h"
#include "megacpp/core/stats/student_t.h"

namespace megacpp::stats {
namespace {

constexpr double kUpper = (1 + kConfidence) / 2;                                      // two-sided
constexpr double kAssumedVariance = 2 * kAssumedLaunchSpread * kAssumedLaunchSpread;  // of a pair of launches

/// A variance on the scale of logarithms, that is of relative values, and how well it is known.
struct Variance {
  double value = 0;
  double degrees = 0;
};

/// One side: the logarithm of its typical value, its runs one by one.
struct Summary {
  std::vector<SeriesMean> runs;
  double log_mean = 0;  // over runs
};

Summary summary_of(const Side& side) {
  Summary summary;
  for (const Series& run : side) {
    summary.runs.push_back(series_mean(run));
    summary.log_mean += std::log(summary.runs.back().mean) / static_cast<double>(side.size());
  }
  return summary;
}

// Within one run: what its own series tells.
Variance within(const SeriesMean& run) {
  const double relative = run.standard_error / run.mean;
  return {.value = relative * relative, .degrees = run.degrees_of_freedom};
}

// Of one run among those of its side; needs two.
Variance between(const Summary& side) {
  double squares = 0;
  for (const SeriesMean& run : side.runs) squares += std::pow(std::log(run.mean) - side.log_mean, 2);
  const auto degrees = static_cast<double>(side.runs.size() - 1);
  return {.value = squares / degrees, .degrees = degrees};
}

// The degrees of freedom of a sum of variances (Welch and Satterthwaite); `exact` is a part that is not estimated.
Variance sum_of(const Variance& a, const Variance& b, double exact = 0) {
  const double total = a.value + b.value + exact;
  const double uncertain = a.value * a.value / a.degrees + b.value * b.value / b.degrees;
  constexpr double kMany = 1e6;
  return {.value = total, .degrees = uncertain > 0 ? std::min(total * total / uncertain, kMany) : kMany};
}

Variance over_runs(const Variance& of_one, const Summary& side) {
  return {.value = of_one.value / static_cast<double>(side.runs.size()), .degrees = of_one.degrees};
}

// Of the difference of the sides' logarithms where both have several runs.
Variance between_sides(const Summary& baseline, const Summary& other) {
  return sum_of(over_runs(between(baseline), baseline), over_runs(between(other), other));
}

// The same of one run against several. It varies as they do, or more where its own series is noisier or shorter.
Variance one_to_several(const SeriesMean& one, const Summary& several) {
  const Variance of_runs = between(several);
  const double of_one = std::max(of_runs.value, within(one).value);
  return {.value = of_one + over_runs(of_runs, several).value, .degrees = of_runs.degrees};
}

// The largest standard error of a pair of single runs with which a sought change is found as often as wanted.
double sought_error() {
  constexpr double kDegrees = 12;  // that such a comparison has at least
  const double change = std::log1p(kSoughtChange), quantile = student_t_quantile(kUpper, kDegrees);
  const double power = student_t_quantile(kSoughtPower, kDegrees);
  double low = 0, high = change;
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double error = (low + high) / 2;
    (quantile * std::sqrt(kAssumedVariance + error * error) + power * error < change ? low : high) = error;
  }
  return low;
}

// A series tells its own noise only roughly: lengths from it are longer than needed on average, to be seldom too short.
constexpr double kLengthMargin = 1.5;   // for the standard error
constexpr double kEffectiveMargin = 4;  // for the values it is worth, which short series tell worst

// By how much the variance of so few runs is too small, one time in four: degrees over the lower quartile of the
// chi-squared distribution (Wilson and Hilferty 1931). On average that finds what is sought often enough.
double variance_margin(double degrees) {
  constexpr double kLowerQuartile = -0.6745;  // of the normal distribution
  const double part = 2 / (9 * degrees);
  return 1 / std::pow(1 - part + kLowerQuartile * std::sqrt(part), 3);
}

// Values that a run like this one should have, to be one of a pair.
size_t values_wanted(const SeriesMean& run, size_t count) {
  static const double sought = sought_error();
  constexpr double kUnknown = 4;  // times the least, where a series says nothing of its noise
  if (run.effective_values == 0) return static_cast<size_t>(kUnknown * static_cast<double>(kLeastValues));
  const auto values = static_cast<double>(count);
  const double relative = run.standard_error / run.mean * std::sqrt(2.0);
  const double for_error = kLengthMargin * values * std::pow(relative / sought, 2);
  const double for_worth = kEffectiveMargin * values * kLeastEffective / run.effective_values;
  return std::max(2 * kLeastValues, static_cast<size_t>(std::ceil(std::max(for_error, for_worth))));
}

// Runs of each side with which a sought change is found as often as wanted, where runs differ so much. What a few runs
// say of that is rough, and too little half of the time: more are wanted the fewer there were.
size_t runs_wanted(const Variance& measured) {
  constexpr size_t kFewest = 3, kMost = 100;
  const double of_one = measured.value * variance_margin(measured.degrees);
  for (size_t runs = kFewest; runs < kMost; ++runs) {
    const auto degrees = static_cast<double>(2 * (runs - 1));
    const double error = std::sqrt(2 * of_one / static_cast<double>(runs));
    if ((student_t_quantile(kUpper, degrees) + student_t_quantile(kSoughtPower, degrees)) * error <
        std::log1p(kSoughtChange))
      return runs;
  }
  return kMost;
}

Variance variance_of_pair(const SeriesMean& baseline, const SeriesMean& other) {
  return sum_of(within(baseline), within(other), kAssumedVariance);
}

std::string too_short_text(const SeriesMean& run, size_t values) {
  if (values < kLeastValues)
    return fmt::format("{}, {} are the least", base::counted(static_cast<int64_t>(values), "timed value"),
                       kLeastValues);
  return fmt::format(
      "{} timed values are worth {:.0f} independent ones, {:.0f} are the least: they drift or depend on "
      "each other",
      values, run.effective_values, kLeastEffective);
}

void set_interval(const Variance& variance, Effect& effect) {
  const double error = std::sqrt(variance.value), change = std::log(effect.ratio);
  const double half = student_t_quantile((1 + effect.confidence) / 2, variance.degrees) * error;
  effect.low = std::exp(change - half);
  effect.high = std::exp(change + half);
  effect.p_value = error > 0 ? 2 * student_t_cdf(-std::abs(change) / error, variance.degrees) : change == 0 ? 1 : 0;
  effect.finding = effect.low > 1 ? Finding::higher : *effect.high < 1 ? Finding::lower : Finding::no_difference;
}

// Of all runs, each side around its own mean; one alone says nothing.
Variance pooled(const Summary& baseline, const Summary& other) {
  Variance all;
  for (const Summary* side : {&baseline, &other}) {
    if (side->runs.size() < 2) continue;
    const Variance of_side = between(*side);
    all.value += of_side.value * of_side.degrees;
    all.degrees += of_side.degrees;
  }
  all.value /= all.degrees;
  return all;
}

void compare_runs(const Summary& baseline, const Summary& other, Effect& effect) {
  effect.recommended_runs = runs_wanted(pooled(baseline, other));
  if (baseline.runs.size() > 1 && other.runs.size() > 1) {
    effect.test = fmt::format("Welch's t on {} and {} runs", baseline.runs.size(), other.runs.size());
    return set_interval(between_sides(baseline, other), effect);
  }
  const bool is_baseline_one = baseline.runs.size() == 1;
  const SeriesMean& one = (is_baseline_one ? baseline : other).runs.front();
  const Summary& several = is_baseline_one ? other : baseline;
  effect.test = fmt::format("Student's t on one run and {}, whose spread is taken for both sides", several.runs.size());
  if (one.effective_values == 0)
    effect.too_short = fmt::format("the run that stands alone has fewer than {} timed values", kLeastValues);
  else
    set_interval(one_to_several(one, several), effect);
}

void compare_pair(const Summary& baseline, const Summary& other, const std::pair<size_t, size_t>& counts,
                  Effect& effect) {
  const SeriesMean &first = baseline.runs.front(), &second = other.runs.front();
  effect.test = fmt::format(
      "Student's t on trimmed means of steps, errors by batch means and autoregression; allows for {:.0f} % between "
      "launches, which one run a side cannot measure",
      100 * kAssumedLaunchSpread);
  if (!first.is_long_enough()) effect.too_short = too_short_text(first, counts.first);
  if (!second.is_long_enough()) effect.too_short = too_short_text(second, counts.second);
  if (first.effective_values == 0 || second.effective_values == 0) return;
  set_interval(variance_of_pair(first, second), effect);
  if (!effect.too_short.empty()) effect.finding = Finding::too_short;
}

void require_positive(const Side& side) {
  MEGACPP_CHECK(!side.empty()) << "a side without runs";
  for (const Series& run : side)
    MEGACPP_CHECK(!run.empty() && std::ranges::all_of(run, [](double value) { return value > 0; }))
        << "times are positive";
}

}  // namespace

double confidence_of_each(size_t comparisons) {
  return 1 - (1 - kConfidence) / static_cast<double>(std::max<size_t>(comparisons, 1));
}

Effect compare(const Side& baseline, const Side& other, double confidence) {
  require_positive(baseline);
  require_positive(other);
  const Summary first = summary_of(baseline), second = summary_of(other);
  Effect effect{.baseline = std::exp(first.log_mean), .other = std::exp(second.log_mean)};
  effect.ratio = effect.other / effect.baseline;
  effect.confidence = confidence;
  for (size_t i = 0; i < baseline.size(); ++i)
    effect.recommended_values = std::max(effect.recommended_values, values_wanted(first.runs[i], baseline[i].size()));
  for (size_t i = 0; i < other.size(); ++i)
    effect.recommended_values = std::max(effect.recommended_values, values_wanted(second.runs[i], other[i].size()));
  if (baseline.size() > 1 || other.size() > 1)
    compare_runs(first, second, effect);
  else
    compare_pair(first, second, {baseline.front().size(), other.front().size()}, effect);
  return effect;
}

}  // namespace megacpp::stats
