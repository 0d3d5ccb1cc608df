// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/stats/series_mean.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "megacpp/core/base/philox.h"

namespace megacpp::stats {
namespace {

std::vector<double> autoregression(double phi, size_t count, const char* site) {
  const base::Philox random(3, site);
  std::vector<double> values;
  double state = random.normal(0);
  for (size_t i = 0; i < count; ++i) {
    state = phi * state + std::sqrt(1 - phi * phi) * random.normal(i + 1);
    values.push_back(10 + state);
  }
  return values;
}

TEST(SeriesMeanTest, StallsDoNotDecideTheMean) {
  std::vector<double> values(100, 2.0);
  for (const size_t at : {7U, 30U, 71U}) values[at] = 50;
  EXPECT_EQ(series_mean(values).mean, 2.0);
}

TEST(SeriesMeanTest, AConstantSeriesHasNoError) {
  const SeriesMean result = series_mean(std::vector<double>(64, 3.0));
  EXPECT_EQ(result.standard_error, 0);
  EXPECT_EQ(result.effective_values, 64);
  EXPECT_TRUE(result.is_long_enough());
}

TEST(SeriesMeanTest, MemoryMakesASeriesWorthLess) {
  const SeriesMean independent = series_mean(autoregression(0, 400, "independent"));
  const SeriesMean dependent = series_mean(autoregression(0.9, 400, "dependent"));
  EXPECT_GT(independent.effective_values, 150);
  EXPECT_LT(dependent.effective_values, 40);  // (1 - phi) / (1 + phi) of 400 are 21
  EXPECT_GT(dependent.standard_error, 2 * independent.standard_error);
}

TEST(SeriesMeanTest, ADriftIsWorthNothing) {
  std::vector<double> values = autoregression(0, 200, "drift");
  for (size_t i = 0; i < values.size(); ++i) values[i] += 0.1 * static_cast<double>(i);
  EXPECT_FALSE(series_mean(values).is_long_enough());
}

TEST(SeriesMeanTest, AFewValuesTellNoError) {
  const SeriesMean result = series_mean(std::vector<double>(kLeastValues - 1, 1.0));
  EXPECT_EQ(result.mean, 1.0);
  EXPECT_EQ(result.effective_values, 0);
  EXPECT_FALSE(result.is_long_enough());
}

}  // namespace
}  // namespace megacpp::stats
