// SPDX-License-Identifier: Apache-2.0
// What the record of every element type must say, and that its casts are what it says. Of a narrow type all numbers are
// tried.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "megacpp/core/ir/dtype.h"

namespace megacpp::testing_support {

/// Every field that all types have, names that no other has.
inline void expect_whole(ir::DType dtype) {
  const ir::DTypeRecord& type = ir::record(dtype);
  SCOPED_TRACE(std::string(type.name));
  EXPECT_EQ(ir::parse_dtype(type.name), dtype);
  EXPECT_TRUE(type.bits == 8 || type.bits == 16 || type.bits == 32) << type.bits;
  for (const std::string_view word : {type.name, type.rate, type.hlo, type.xla, type.numpy}) EXPECT_FALSE(word.empty());
  EXPECT_TRUE(type.to_f32 != nullptr && type.from_f32 != nullptr);
  EXPECT_GT(type.largest, 0);
  EXPECT_GT(type.smallest, 0);
  EXPECT_GT(type.epsilon, 0);
  EXPECT_EQ(ir::record(type.sums).sums, type.sums) << "sums are not narrower than what they are sums of";
  EXPECT_EQ(type.products.has_value(), type.is_real());
  EXPECT_TRUE(!type.is_precision || type.is_real());
  for (const ir::DTypeRecord& other : ir::all_dtypes()) {
    if (&other == &type) continue;
    EXPECT_NE(other.hlo, type.hlo);
    EXPECT_NE(other.xla, type.xla);
    EXPECT_NE(other.numpy, type.numpy);
    EXPECT_TRUE(type.safetensors.empty() || type.safetensors != other.safetensors);
    EXPECT_TRUE(!type.pjrt || type.pjrt != other.pjrt);
    EXPECT_TRUE(!type.device_code || type.device_code != other.device_code);
  }
}

/// The range that it states is that of its casts.
inline void expect_range(ir::DType dtype) {
  const ir::DTypeRecord& type = ir::record(dtype);
  SCOPED_TRACE(std::string(type.name));
  for (const double number : {type.least, type.largest, type.smallest, 1.0, 0.0})
    EXPECT_EQ(ir::number_of(dtype, ir::bits_of(dtype, number)), number);
  if (!type.is_real()) return;
  EXPECT_EQ(type.least, -type.largest);
  EXPECT_EQ(ir::rounded(dtype, 1 + type.epsilon), 1 + type.epsilon);
  const double beyond = ir::rounded(dtype, 1.5 * type.largest);
  EXPECT_TRUE(type.has_infinity ? std::isinf(beyond) : std::isnan(beyond)) << beyond;
  EXPECT_EQ(std::isinf(ir::rounded(dtype, HUGE_VAL)), type.has_infinity);
  EXPECT_TRUE(std::isnan(ir::rounded(dtype, std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(std::signbit(ir::rounded(dtype, -0.0)));
}

/// All numbers of a narrow type come back, what is between two goes to the nearer, and from the middle to the even one.
inline void expect_exact_casts(ir::DType dtype) {
  const ir::DTypeRecord& type = ir::record(dtype);
  SCOPED_TRACE(std::string(type.name));
  if (type.bits > 16 || !type.is_real()) return;
  const uint64_t sign = uint64_t{1} << (type.bits - 1);
  for (uint64_t bits = 0; bits < sign; ++bits) {
    const double number = ir::number_of(dtype, bits), next = ir::number_of(dtype, bits + 1);
    if (std::isnan(number)) continue;
    ASSERT_EQ(ir::bits_of(dtype, number), bits);
    ASSERT_EQ(ir::bits_of(dtype, -number), bits | sign);
    if (std::isinf(number) || !std::isfinite(next) || bits + 1 == sign) continue;
    const double middle = number + (next - number) / 2, near = (next - number) / 8;
    ASSERT_EQ(ir::bits_of(dtype, middle), bits + bits % 2) << number;
    ASSERT_EQ(ir::bits_of(dtype, middle - near), bits) << number;
    ASSERT_EQ(ir::bits_of(dtype, middle + near), bits + 1) << number;
  }
}

}  // namespace megacpp::testing_support
