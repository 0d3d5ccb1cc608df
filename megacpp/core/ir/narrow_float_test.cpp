// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/narrow_float.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megacpp::ir {
namespace {

constexpr FloatFormat kHalf = {.exponent_bits = 5, .fraction_bits = 10};
constexpr FloatFormat kE5m2 = {.exponent_bits = 5, .fraction_bits = 2};
constexpr FloatFormat kE4m3 = {.exponent_bits = 4, .fraction_bits = 3, .has_infinity = false};

TEST(NarrowFloatTest, HalvesRoundAtTheLargestAndTheSmallest) {
  EXPECT_EQ(narrowed(65519.0F, kHalf), 0x7BFFu);
  EXPECT_EQ(narrowed(65520.0F, kHalf), 0x7C00u);
  EXPECT_EQ(widened(0x0001, kHalf), std::ldexp(1.0F, -24));
  EXPECT_EQ(narrowed(std::ldexp(1.0F, -25), kHalf), 0u);
  EXPECT_EQ(narrowed(-std::ldexp(1.5F, -25), kHalf), 0x8001u);
  EXPECT_TRUE(std::isnan(widened(0x7E00, kHalf)));
}

TEST(NarrowFloatTest, EightBitsHaveTheirLargestNumbers) {
  EXPECT_EQ(widened(0x7E, kE4m3), 448.0F);
  EXPECT_EQ(narrowed(448.0F, kE4m3), 0x7Eu);
  EXPECT_EQ(narrowed(464.0F, kE4m3), 0x7Eu) << "the middle goes to the even one";
  EXPECT_EQ(narrowed(465.0F, kE4m3), 0x7Fu);
  EXPECT_TRUE(std::isnan(widened(0x7F, kE4m3)));
  EXPECT_EQ(widened(0x7B, kE5m2), 57344.0F);
  EXPECT_EQ(narrowed(HUGE_VALF, kE5m2), 0x7Cu);
  EXPECT_EQ(widened(0xFC, kE5m2), -HUGE_VALF);
}

}  // namespace
}  // namespace megacpp::ir
