// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/guarded_mapping.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "megacpp/core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::base {
namespace {

using testing_support::TemporaryFolder;

constexpr size_t kBytes = size_t{1} << 20;

GuardedMapping map_for_reading(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  GuardedMapping mapping(file, kBytes, PROT_READ, MAP_PRIVATE);
  ::close(file);
  return mapping;
}

int64_t sum_of(std::span<const std::byte> bytes) {
  int64_t sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<int64_t>(byte);
  return sum;
}

class GuardedMappingTest : public ::testing::Test {
 protected:
  GuardedMappingTest() { write_file_atomically(path_, std::string(kBytes, '\1')); }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "a";
};

TEST_F(GuardedMappingTest, BytesBehindTheEndOfAShortenedFileAreZerosAndDamage) {
  const GuardedMapping mapping = map_for_reading(path_);
  EXPECT_EQ(sum_of(mapping.bytes()), static_cast<int64_t>(kBytes));
  EXPECT_FALSE(mapping.is_damaged());
  std::filesystem::resize_file(path_, kBytes / 2);
  EXPECT_EQ(sum_of(mapping.bytes().first(kBytes / 2)), static_cast<int64_t>(kBytes / 2));
  EXPECT_FALSE(mapping.is_damaged()) << "these bytes are there";
  EXPECT_EQ(sum_of(mapping.bytes()), static_cast<int64_t>(kBytes / 2));
  EXPECT_TRUE(mapping.is_damaged());
}

TEST_F(GuardedMappingTest, BytesThatComeBackStayDamage) {
  const GuardedMapping mapping = map_for_reading(path_);
  std::filesystem::resize_file(path_, 0);
  std::vector<std::byte> copy(kBytes);
  std::memcpy(copy.data(), mapping.bytes().data(), kBytes);  // the fault comes inside
  std::filesystem::resize_file(path_, kBytes);
  EXPECT_EQ(sum_of(copy), 0);
  EXPECT_TRUE(mapping.is_damaged());
}

TEST_F(GuardedMappingTest, ThreadsThatReadOneMappingAllSeeTheDamage) {
  const GuardedMapping mapping = map_for_reading(path_);
  std::filesystem::resize_file(path_, 0);
  std::atomic<int> seen = 0;
  {
    std::vector<std::jthread> readers;
    for (size_t i = 0; i < 8; ++i)
      readers.emplace_back([&, i] {
        if (sum_of(mapping.bytes().subspan(i * kBytes / 8, kBytes / 8)) == 0 && mapping.is_damaged()) ++seen;
      });
  }
  EXPECT_EQ(seen, 8);
}

TEST_F(GuardedMappingTest, OtherMappingsAndLaterOnesAreSound) {
  write_file_atomically(folder_ / "b", std::string(kBytes, '\2'));
  const GuardedMapping other = map_for_reading(folder_ / "b");
  {
    const GuardedMapping mapping = map_for_reading(path_);
    std::filesystem::resize_file(path_, 0);
    EXPECT_EQ(sum_of(mapping.bytes()), 0);
    EXPECT_TRUE(mapping.is_damaged());
  }
  EXPECT_EQ(sum_of(other.bytes()), static_cast<int64_t>(2 * kBytes));
  EXPECT_FALSE(other.is_damaged());
  GuardedMapping later = map_for_reading(folder_ / "b");  // where the damaged one was
  EXPECT_FALSE(later.is_damaged());
  std::filesystem::resize_file(folder_ / "b", 0);
  const GuardedMapping moved = std::move(later);
  EXPECT_EQ(sum_of(moved.bytes()), 0);
  EXPECT_TRUE(moved.is_damaged());
  EXPECT_TRUE(later.bytes().empty());
}

TEST_F(GuardedMappingTest, MemoryThatIsWrittenGoesNowhere) {
  const int file = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  const GuardedMapping mapping(file, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED);
  ::close(file);
  std::filesystem::resize_file(path_, 0);
  std::ranges::fill(mapping.bytes(), std::byte{3});
  EXPECT_TRUE(mapping.is_damaged());
  EXPECT_EQ(sum_of(mapping.bytes()), static_cast<int64_t>(3 * kBytes));
  EXPECT_TRUE(std::filesystem::is_empty(path_));
}

TEST_F(GuardedMappingTest, WhatCannotBeMappedIsEmpty) {
  const GuardedMapping mapping(-1, kBytes, PROT_READ, MAP_PRIVATE);
  EXPECT_EQ(errno, EBADF);
  EXPECT_TRUE(mapping.bytes().empty());
  EXPECT_FALSE(mapping.is_damaged());
}

// Sanitizers have a handler of their own, and say what they saw.
TEST_F(GuardedMappingTest, OtherAddressesEndTheProcessAsBefore) {
  const GuardedMapping mapping = map_for_reading(path_);
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const auto* const plain = static_cast<const volatile char*>(::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0));
  ::close(file);
  std::filesystem::resize_file(path_, 0);
  EXPECT_DEATH(static_cast<void>(*plain), "");
  EXPECT_DEATH(::raise(SIGBUS), "");
}

}  // namespace
}  // namespace megacpp::base
