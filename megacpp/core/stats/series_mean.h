// SPDX-License-Identifier: Apache-2.0
// The typical value of a series that is autocorrelated and has outliers, as step times are, and how well the series
// tells it. The typical value is a trimmed mean, so that stalls do not decide it. Its standard error is the largest of
// several estimates that fail in different ways: batch means over few and over many batches, and a first-order
// autoregression. So it errs on the safe side: that is what keeps chance from being called a difference. What changes
// more slowly than the whole series no series can tell.
#pragma once

#include <cstddef>
#include <span>

namespace megacpp::stats {

inline constexpr double kTrimmed = 0.1;       // of the values, at either end
inline constexpr size_t kLeastValues = 32;    // of a series that can be told something about
inline constexpr double kLeastEffective = 8;  // independent values that a series must be worth

struct SeriesMean {
  double mean = 0;                // trimmed
  double standard_error = 0;      // of it
  double degrees_of_freedom = 1;  // of the standard error
  double effective_values = 0;    // independent values that would tell the mean as well

  bool is_long_enough() const { return effective_values >= kLeastEffective; }
};

/// In the order they were measured. Fewer than kLeastValues have no standard error: they are worth 0 values.
SeriesMean series_mean(std::span<const double> values);

}  // namespace megacpp::stats
