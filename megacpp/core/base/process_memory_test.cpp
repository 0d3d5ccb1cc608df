// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <sstream>

namespace megacpp::base {
namespace {

constexpr int64_t kKibibyte = 1024;

TEST(ProcessMemoryTest, EveryMappingIsCountedOnce) {
  std::istringstream smaps(
      "00400000-00500000 r-xp 00000000 fe:00 1 /bin/megacpp\nSize: 1024 kB\nRss: 100 kB\n"
      "00500000-00510000 rw-p 00000000 00:00 0 \nRss: 7 kB\nPss: 7 kB\n"  // its variables
      "01000000-02000000 rw-p 00000000 00:00 0 [heap]\nRss: 50 kB\n"
      "f0000000-f0100000 rw-p 00000000 00:00 0 \nRss: 30 kB\n"  // a thread's arena of malloc
      "f0100000-f4000000 ---p 00000000 00:00 0 \nRss: 0 kB\n"
      "f5000000-f5010000 ---p 00000000 00:00 0 \nRss: 0 kB\n"
      "f5010000-f5800000 rw-p 00000000 00:00 0 \nRss: 12 kB\n"  // its stack, with the guard 8 MiB
      "f9000000-fa000000 rw-p 00000000 00:00 0 \nRss: 400 kB\n"
      "ff000000-ff100000 rw-p 00000000 00:00 0 [stack]\nRss: 3 kB\n");
  EXPECT_EQ(read_process_memory(smaps, 700 * kKibibyte, 8 << 20), (ProcessMemory{.code = 107 * kKibibyte,
                                                                                 .stacks = 15 * kKibibyte,
                                                                                 .heap = 80 * kKibibyte,
                                                                                 .mapped = 400 * kKibibyte,
                                                                                 .released = 98 * kKibibyte,
                                                                                 .peak = 700 * kKibibyte}));
}

TEST(ProcessMemoryTest, CountsWhatThisProcessTouches) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map for themselves";
#endif
  const std::optional<ProcessMemory> before = process_memory();
  ASSERT_TRUE(before);
  EXPECT_GT(before->code, 0);
  EXPECT_GT(before->stacks, 0);
  EXPECT_GT(before->heap, 0);
  constexpr size_t kBytes = 32 << 20;
  void* const block = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBytes);
  const std::optional<ProcessMemory> after = process_memory();
  EXPECT_NEAR(static_cast<double>(after->mapped - before->mapped), kBytes, kBytes / 100);
  EXPECT_GE(after->peak, before->peak);
  ::munmap(block, kBytes);
}

}  // namespace
}  // namespace megacpp::base
