// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ir/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace megacpp::ir {
namespace {

TEST(DtypeTest, NamesRoundTripAndSizesAreRight) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i32, DType::pred})
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  EXPECT_EQ(parse_dtype("f64"), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::f32), 4);
  EXPECT_EQ(dtype_bytes(DType::bf16), 2);
  EXPECT_EQ(dtype_bytes(DType::i32), 4);
  EXPECT_EQ(dtype_bytes(DType::pred), 1);
  EXPECT_TRUE(is_float(DType::bf16));
  EXPECT_FALSE(is_float(DType::pred));
}

TEST(DtypeTest, EveryBf16ComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_f32(static_cast<uint16_t>(bits));
    const uint16_t back = f32_to_bf16(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(back))) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST(DtypeTest, Bf16RoundsToNearestEven) {
  const auto rounded = [](float value) { return bf16_to_f32(f32_to_bf16(value)); };
  const float step = 1.0F / 128.0F;  // between neighbours just above one
  EXPECT_EQ(rounded(1.0F + 0.49F * step), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0.50F * step), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0.51F * step), 1.0F + step);
  EXPECT_EQ(rounded(1.0F + 1.50F * step), 1.0F + 2.0F * step);
  EXPECT_EQ(rounded(-1.0F - 1.50F * step), -1.0F - 2.0F * step);
}

TEST(DtypeTest, Bf16KeepsInfinitiesNanAndSign) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(-kInfinity)), -kInfinity);
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::signbit(bf16_to_f32(f32_to_bf16(-0.0F))));
}

}  // namespace
}  // namespace megacpp::ir
