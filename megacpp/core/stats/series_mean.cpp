// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/stats/series_mean.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "megacpp/core/stats/student_t.h"

namespace megacpp::stats {
namespace {

constexpr double kWidthAt = 0.975;            // of the interval that estimates are compared by
constexpr double kLargestCorrelation = 0.99;  // beyond it a series has no mean to speak of

/// The variance of a mean, and how well it is known.
struct MeanVariance {
  double variance = 0;
  double degrees = 1;
};

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size() - 1);
}

// The correlation of values with those before them. The estimate of a short series is too low by about
// (1 + 3 rho) / n (Kendall 1954), which is added.
double first_autocorrelation(std::span<const double> values) {
  const double mean = mean_of(values);
  double products = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    squares += (values[i] - mean) * (values[i] - mean);
    if (i > 0) products += (values[i] - mean) * (values[i - 1] - mean);
  }
  if (squares == 0) return 0;
  const double raw = products / squares;
  return std::min(raw + (1 + 3 * raw) / static_cast<double>(values.size()), kLargestCorrelation);
}

// How much more the mean of an autoregression varies than that of independent values.
double inflation(double autocorrelation) {
  const double rho = std::max(autocorrelation, 0.0);
  return (1 + rho) / (1 - rho);
}

// Half a standard error of the autocorrelation counts as none: means of few batches seem correlated by chance.
MeanVariance by_batches(std::span<const double> values, size_t batches) {
  const size_t length = values.size() / batches;
  const std::span<const double> used = values.last(batches * length);
  std::vector<double> means;
  for (size_t i = 0; i < batches; ++i) means.push_back(mean_of(used.subspan(i * length, length)));
  const auto count = static_cast<double>(batches);
  const double grown = inflation(first_autocorrelation(means) - 0.5 / std::sqrt(count));
  return {.variance = variance_of(means) / count * grown, .degrees = std::max(1.0, (count - 1) / grown)};
}

// A standard error of the autocorrelation more than was found: what a series says of its own memory is uncertain.
MeanVariance by_autoregression(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double found = first_autocorrelation(values);
  const double rho = std::min(found + std::sqrt(std::max(0.0, 1 - found * found) / count), kLargestCorrelation);
  const double grown = inflation(rho);
  return {.variance = variance_of(values) / count * grown, .degrees = std::max(1.0, (count - 1) / grown)};
}

// The one with the widest interval.
MeanVariance safest(std::span<const double> values) {
  const auto half_width = [](const MeanVariance& one) {
    return std::sqrt(one.variance) * student_t_quantile(kWidthAt, one.degrees);
  };
  MeanVariance widest = by_autoregression(values);
  for (const size_t batches : {8U, 16U, 32U})
    if (const MeanVariance one = by_batches(values, batches); half_width(one) > half_width(widest)) widest = one;
  return widest;
}

}  // namespace

SeriesMean series_mean(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const auto trimmed = static_cast<size_t>(kTrimmed * static_cast<double>(values.size()));
  const std::span<const double> kept = std::span(sorted).subspan(trimmed, sorted.size() - 2 * trimmed);
  SeriesMean result{.mean = mean_of(kept)};
  if (values.size() < kLeastValues) return result;
  if (kept.front() == kept.back()) {
    result.degrees_of_freedom = static_cast<double>(values.size() - 1);
    result.effective_values = static_cast<double>(values.size());
    return result;
  }
  // The variance of a trimmed mean is that of the values with their ends pulled in, over the share that is kept
  // (Tukey and McLaughlin 1963).
  std::vector<double> winsorized;
  for (const double value : values) winsorized.push_back(std::clamp(value, kept.front(), kept.back()));
  const MeanVariance estimate = safest(winsorized);
  const double share = 1 - 2 * kTrimmed;
  result.standard_error = std::sqrt(estimate.variance) / share;
  result.degrees_of_freedom = estimate.degrees;
  result.effective_values = variance_of(winsorized) / estimate.variance;
  return result;
}

}  // namespace megacpp::stats
