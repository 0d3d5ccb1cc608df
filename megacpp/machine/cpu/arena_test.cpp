// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cpu/arena.h"

#include <gtest/gtest.h>

#include "megacpp/program/memory/out_of_memory.h"

namespace megacpp::runtime::cpu {
namespace {

TEST(ArenaTest, BytesAreZeroAndWritable) {
  const Arena arena(10000);
  EXPECT_EQ(arena.bytes(), 10000);
  for (int64_t i = 0; i < arena.bytes(); ++i) ASSERT_EQ(*arena.at(i), std::byte{0});
  *arena.at(0) = std::byte{1};
  *arena.at(9999) = std::byte{2};
}

TEST(ArenaTest, PlannedOffsetsStayAligned) {
  const Arena arena(64 * 1001);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.at(0)) % 64, 0U);
}

TEST(ArenaDeathTest, TouchingTheByteBehindThePlanStopsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Arena arena(128);
  EXPECT_DEATH(*const_cast<volatile std::byte*>(arena.at(128)) = std::byte{1}, "");
}

TEST(ArenaTest, NothingIsLegalAndTooMuchIsSaid) {
  EXPECT_EQ(Arena(0).bytes(), 0);
  try {
    const Arena arena(int64_t{1} << 60);
    FAIL() << "no machine has that much";
  } catch (const memory::OutOfMemory& error) {
    EXPECT_EQ(error.code(), base::Code::E2005);
    EXPECT_EQ(error.facts().cls, memory::OomClass::host);
    EXPECT_EQ(error.facts().wanted, int64_t{1} << 60);
  }
}

}  // namespace
}  // namespace megacpp::runtime::cpu
