// SPDX-License-Identifier: Apache-2.0
#include "megacpp/stats/effect.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/stats/series_mean.h"
#include "megacpp/stats/student_t.h"

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

// Of the difference of the sides' logarithms where at least one has several runs; a side of one takes the other's.
Variance between_sides(const Summary& baseline, const Summary& other) {
  const Variance first = between(baseline.runs.size() > 1 ? baseline : other);
  const Variance second = between(other.runs.size() > 1 ? other : baseline);
  const auto share = [](const Variance& one, const Summary& side) {
    return Variance{.value = one.value / static_cast<double>(side.runs.size()), .degrees = one.degrees};
  };
  const Variance total = sum_of(share(first, baseline), share(second, other));
  const bool is_shared = baseline.runs.size() == 1 || other.runs.size() == 1;  // one estimate counts once
  return {.value = total.value, .degrees = is_shared ? first.degrees : total.degrees};
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

// Runs of each side with which a sought change is found as often as wanted, where runs differ so much.
size_t runs_wanted(const Variance& of_one) {
  constexpr size_t kFewest = 3, kMost = 100;
  for (size_t runs = kFewest; runs < kMost; ++runs) {
    const auto degrees = static_cast<double>(2 * (runs - 1));
    const double error = std::sqrt(2 * of_one.value / static_cast<double>(runs));
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
  if (values < kLeastValues) return fmt::format("{} timed values, {} are the least", values, kLeastValues);
  return fmt::format(
      "{} timed values are worth {:.0f} independent ones, {:.0f} are the least: they drift or depend on "
      "each other",
      values, run.effective_values, kLeastEffective);
}

void set_interval(const Variance& variance, Effect& effect) {
  const double error = std::sqrt(variance.value), change = std::log(effect.ratio);
  const double half = student_t_quantile(kUpper, variance.degrees) * error;
  effect.low = std::exp(change - half);
  effect.high = std::exp(change + half);
  effect.p_value = error > 0 ? 2 * student_t_cdf(-std::abs(change) / error, variance.degrees) : change == 0 ? 1 : 0;
  effect.finding = effect.low > 1 ? Finding::higher : *effect.high < 1 ? Finding::lower : Finding::no_difference;
}

void compare_runs(const Summary& baseline, const Summary& other, Effect& effect) {
  const Variance variance = between_sides(baseline, other);
  effect.test = fmt::format("Welch's t on {} and {} runs", baseline.runs.size(), other.runs.size());
  const Variance of_one = between(baseline.runs.size() >= other.runs.size() ? baseline : other);
  effect.recommended_runs = runs_wanted(of_one);
  set_interval(variance, effect);
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

std::string_view finding_name(Finding finding) {
  switch (finding) {
    case Finding::lower:
      return "lower";
    case Finding::higher:
      return "higher";
    case Finding::no_difference:
      return "no difference";
    case Finding::too_short:
      return "too short";
  }
  return "";
}

Effect compare(const Side& baseline, const Side& other) {
  require_positive(baseline);
  require_positive(other);
  const Summary first = summary_of(baseline), second = summary_of(other);
  Effect effect{.baseline = std::exp(first.log_mean), .other = std::exp(second.log_mean)};
  effect.ratio = effect.other / effect.baseline;
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
