// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/stats/student_t.h"

#include <gtest/gtest.h>

namespace megacpp::stats {
namespace {

// Published tables of the distribution.
TEST(StudentTTest, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.7062, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.7764, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.95, 10), 1.8125, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.975, 30), 2.0423, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.975, 1e6), 1.95997, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.5, 7), 0, 1e-6);
}

TEST(StudentTTest, TheDistributionIsSymmetricAndInverse) {
  for (const double degrees : {1.0, 2.5, 8.0, 120.0})
    for (const double t : {0.1, 1.0, 2.5}) {
      EXPECT_NEAR(student_t_cdf(t, degrees) + student_t_cdf(-t, degrees), 1, 1e-12);
      EXPECT_NEAR(student_t_quantile(student_t_cdf(t, degrees), degrees), t, 1e-6);
    }
}

}  // namespace
}  // namespace megacpp::stats
