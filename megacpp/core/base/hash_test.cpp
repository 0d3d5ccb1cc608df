// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/hash.h"

#include <gtest/gtest.h>

namespace megacpp::base {
namespace {

TEST(HashTest, IsWrittenDownAndNeverChanges) {
  EXPECT_EQ(hash_text(std::string_view("")), "ef46db3751d8e999");
  EXPECT_EQ(hash_text(std::string_view("megacpp")), hash_text(hash_of(std::string_view("megacpp"))));
  const std::string_view text = "megacpp";
  EXPECT_EQ(hash_of(std::as_bytes(std::span(text))), hash_of(text));
  EXPECT_EQ(hash_text(uint64_t{0x1f}), "000000000000001f");
}

}  // namespace
}  // namespace megacpp::base
