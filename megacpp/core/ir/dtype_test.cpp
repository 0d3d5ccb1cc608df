// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/dtype.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/dtype_contract.h"

namespace megacpp::ir {
namespace {

constexpr std::array kAll = {DType::f32, DType::bf16, DType::i32, DType::pred};

TEST(DtypeTest, RecordsAreWhole) {
  ASSERT_EQ(all_dtypes().size(), kAll.size());
  for (const DType dtype : kAll) testing_support::expect_whole(dtype);
}

TEST(DtypeTest, RangesAreThoseOfTheCasts) {
  for (const DType dtype : kAll) testing_support::expect_range(dtype);
}

TEST(DtypeTest, NarrowNumbersComeBackAndAreRoundedToNearestEven) {
  for (const DType dtype : kAll) testing_support::expect_exact_casts(dtype);
}

TEST(DtypeTest, NamesBytesAndKinds) {
  EXPECT_EQ(dtype_name(DType::bf16), "bf16");
  EXPECT_EQ(parse_dtype("f64"), std::nullopt);
  EXPECT_EQ(dtype_bytes(DType::bf16), 2);
  EXPECT_EQ(dtype_bytes(DType::pred), 1);
  EXPECT_TRUE(is_narrow(DType::bf16));
  for (const DType dtype : {DType::f32, DType::i32, DType::pred}) EXPECT_FALSE(is_narrow(dtype));
  EXPECT_EQ(precision_names(), (std::vector<std::string>{"f32", "bf16"}));
}

TEST(DtypeTest, IntegersAndFlagsAreStoredWhole) {
  EXPECT_EQ(rounded(DType::i32, -2.7), -2.0);
  EXPECT_EQ(number_of(DType::i32, bits_of(DType::i32, -16777217.0)), -16777217.0);
  EXPECT_EQ(rounded(DType::pred, 0.3), 1.0);
  EXPECT_EQ(bits_of(DType::pred, -4.0), 1u);
}

TEST(DtypeTest, RowsAtAnyAddressAreConverted) {
  const std::vector<float> numbers = {1.5F, -2.0F, 0.0F, 7.0F, 1e-3F};
  for (const DType dtype : kAll) {
    const DTypeRecord& type = record(dtype);
    const auto count = static_cast<int64_t>(numbers.size());
    std::vector<std::byte> bytes(numbers.size() * static_cast<size_t>(type.bytes()) + 1);
    std::vector<float> back(numbers.size());
    type.from_f32(numbers.data(), bytes.data() + 1, count);
    type.to_f32(bytes.data() + 1, back.data(), count);
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(static_cast<double>(back[i]), rounded(dtype, static_cast<double>(numbers[i]))) << type.name;
  }
}

}  // namespace
}  // namespace megacpp::ir
