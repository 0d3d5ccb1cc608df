// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/byte_size.h"

#include <gtest/gtest.h>

namespace megacpp::schema {
namespace {

int64_t bytes_of(std::string_view text) {
  const auto size = parse_byte_size(text);
  return size ? size->bytes : -1;
}

TEST(ByteSizeTest, BinaryAndDecimalUnitsAreToldApart) {
  EXPECT_EQ(bytes_of("0"), 0);
  EXPECT_EQ(bytes_of("4096"), 4096);
  EXPECT_EQ(bytes_of("17B"), 17);
  EXPECT_EQ(bytes_of("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(bytes_of("1.5GiB"), int64_t{1536} << 20);
  EXPECT_EQ(bytes_of("2GB"), 2'000'000'000);
  EXPECT_EQ(bytes_of("0.5 kB"), 500);
  EXPECT_EQ(bytes_of("3 TiB"), int64_t{3} << 40);
}

TEST(ByteSizeTest, WhatIsUnclearOrTooLargeIsNoSize) {
  for (const char* text :
       {"", "MiB", "512M", "512mib", "-1", "1.5", "1..5GiB", "1e3", "12 MiB ", "9000000TiB", "inf", "0.0000001KiB"})
    EXPECT_EQ(bytes_of(text), -1) << text;
}

TEST(ByteSizeTest, TextsReadBackAsTheSameBytes) {
  EXPECT_EQ(to_string(ByteSize{int64_t{1536} << 20}), "1536MiB");
  EXPECT_EQ(to_string(ByteSize{2'000'000'000}), "1953125KiB");
  EXPECT_EQ(to_string(ByteSize{0}), "0");
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{1} << 31, int64_t{3} << 40, INT64_MAX})
    EXPECT_EQ(bytes_of(to_string(ByteSize{bytes})), bytes);
}

TEST(ByteSizeTest, AnUnclearUnitHasANearestOne) {
  EXPECT_EQ(nearest_byte_size("512M"), "512MiB");
  EXPECT_EQ(nearest_byte_size("1.5 gib"), "1.5GiB");
  EXPECT_EQ(nearest_byte_size("much"), std::nullopt);
  EXPECT_EQ(nearest_byte_size("9000000t"), std::nullopt);  // too large with the unit, too
  EXPECT_EQ(nearest_byte_size("-3MiB"), std::nullopt);
}

}  // namespace
}  // namespace megacpp::schema
