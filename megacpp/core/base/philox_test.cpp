// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/philox.h"

#include <gtest/gtest.h>

namespace megacpp::base {
namespace {

TEST(PhiloxTest, SameSeedSiteAndIndexGiveTheSameNumber) {
  EXPECT_EQ(Philox(7, "block00.A.wq").word(12345), Philox(7, "block00.A.wq").word(12345));
  EXPECT_NE(Philox(7, "block00.A.wq").word(12345), Philox(7, "block00.A.wk").word(12345));
  EXPECT_NE(Philox(7, "block00.A.wq").word(12345), Philox(8, "block00.A.wq").word(12345));
}

TEST(PhiloxTest, NormalsHaveMeanZeroAndVarianceOne) {
  const Philox random(1, "site");
  const int n = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal(static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0.0, 0.01);
  EXPECT_NEAR(squares / n, 1.0, 0.01);
}

TEST(PhiloxTest, UniformsFillTheOpenUnitInterval) {
  const Philox random(1, "site");
  double low = 1, high = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    low = std::min(low, random.uniform(i));
    high = std::max(high, random.uniform(i));
  }
  EXPECT_GT(low, 0.0);
  EXPECT_LT(low, 1e-3);
  EXPECT_LT(high, 1.0);
  EXPECT_GT(high, 1 - 1e-3);
}

}  // namespace
}  // namespace megacpp::base
