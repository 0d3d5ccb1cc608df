// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/philox_normals.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace megacpp::base {
namespace {

struct Stretch {
  uint64_t first;
  size_t count;
};

void expect_same_bits(const Philox& random, double deviation, const Stretch& of) {
  std::vector<float> values(of.count);
  fill_normals(random, deviation, of.first, values);
  size_t different = 0;
  for (size_t i = 0; i < of.count; ++i) {
    const float one = static_cast<float>(deviation * random.normal(of.first + i));
    different += std::memcmp(&one, &values[i], sizeof one) != 0 ? 1 : 0;
  }
  EXPECT_EQ(different, 0U) << of.count << " from " << of.first << ", deviation " << deviation;
}

TEST(PhiloxNormalsTest, HaveTheBitsOfThoseDrawnOneByOne) {
  for (const double deviation : {0.02, 1.0, 0.0078125, -0.3, 1e-42, 0.0})
    expect_same_bits(Philox(1, "block00.A.wq"), deviation, {.first = 0, .count = 20000});
}

TEST(PhiloxNormalsTest, BeginAndEndAnywhere) {
  const Philox random(7, "embed.weight");
  for (uint64_t first = 0; first < 9; ++first)
    for (const size_t count : {0, 1, 2, 3, 4, 5, 31, 32, 33, 67})
      expect_same_bits(random, 0.02, {.first = first, .count = count});
  expect_same_bits(random, 0.02, {.first = (uint64_t{1} << 34) - 50, .count = 300});  // the counter has two words
}

}  // namespace
}  // namespace megacpp::base
