// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/reserved_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <vector>

namespace megacpp::base {
namespace {

/// Pages of the memory that the system has given.
int64_t pages_of(const ReservedMemory& memory) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> is_here((memory.bytes().size() + page - 1) / page);
  EXPECT_EQ(::mincore(memory.bytes().data(), memory.bytes().size(), is_here.data()), 0);
  return std::ranges::count_if(is_here, [](unsigned char each) { return (each & 1) != 0; });
}

TEST(ReservedMemoryTest, IsObtainedWhenItIsFirstWritten) {
  constexpr size_t kBytes = size_t{64} << 20;
  const ReservedMemory memory(kBytes);
  EXPECT_EQ(memory.bytes().size(), kBytes);
  EXPECT_EQ(pages_of(memory), 0);
  memory.bytes()[kBytes - 1] = std::byte{7};
  EXPECT_GT(pages_of(memory), 0);
  EXPECT_EQ(memory.bytes()[kBytes - 1], std::byte{7});
  EXPECT_EQ(memory.bytes()[0], std::byte{0});
}

TEST(ReservedMemoryTest, AllOfItIsObtainedWhereTheMachineHasIt) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const ReservedMemory memory((size_t{1} << 20) + 1);
  EXPECT_FALSE(memory.obtain([] { return int64_t{1} << 40; }));
  EXPECT_EQ(pages_of(memory), static_cast<int64_t>(memory.bytes().size() / page + 1));
  EXPECT_EQ(std::ranges::count(memory.bytes(), std::byte{0}), std::ssize(memory.bytes()));
  EXPECT_FALSE(ReservedMemory(0).obtain([] { return int64_t{0}; }));
}

TEST(ReservedMemoryTest, NothingIsObtainedWhereTheMachineHasTooLittle) {
  const ReservedMemory memory(size_t{1} << 20);
  const std::optional<MemoryShortage> shortage = memory.obtain([] { return (int64_t{1} << 20) - 1; });
  ASSERT_TRUE(shortage);
  EXPECT_EQ(shortage->wanted, 1 << 20);
  EXPECT_EQ(shortage->free, (1 << 20) - 1);
  EXPECT_EQ(pages_of(memory), 0);
}

TEST(ReservedMemoryTest, NoneIsEmptyAndTooMuchIsRefused) {
  EXPECT_TRUE(ReservedMemory(0).bytes().empty());
  EXPECT_THROW(ReservedMemory(SIZE_MAX / 2), std::bad_alloc);
}

}  // namespace
}  // namespace megacpp::base
