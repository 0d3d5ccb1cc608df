// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/reserved_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
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

TEST(ReservedMemoryTest, NoneIsEmptyAndTooMuchIsRefused) {
  EXPECT_TRUE(ReservedMemory(0).bytes().empty());
  EXPECT_THROW(ReservedMemory(SIZE_MAX / 2), std::bad_alloc);
}

}  // namespace
}  // namespace megacpp::base
