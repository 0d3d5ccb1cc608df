// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "megacpp/core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::base {
namespace {

TEST(MachineMemoryTest, IsWhatTheSystemCounts) {
  EXPECT_EQ(machine_memory_bytes(), int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE));
}

TEST(MachineMemoryTest, AContainerMayHaveALimit) {
  const testing_support::TemporaryFolder root;
  EXPECT_EQ(container_memory_limit(root.path()), std::nullopt);
  make_folder(root / "sys/fs/cgroup");
  const std::filesystem::path file = root / "sys/fs/cgroup/memory.max";
  write_file_atomically(file, "max\n");
  EXPECT_EQ(container_memory_limit(root.path()), std::nullopt);
  write_file_atomically(file, "1073741824\n");
  EXPECT_EQ(container_memory_limit(root.path()), 1073741824);
}

TEST(MachineMemoryTest, WhatTheContainerHasTakenIsNotAvailable) {
  const testing_support::TemporaryFolder root;
  EXPECT_EQ(available_memory_bytes(root.path()), std::numeric_limits<int64_t>::max()) << "nothing says how much";
  for (const char* folder : {"proc", "sys/fs/cgroup"}) make_folder(root / folder);
  write_file_atomically(root / "proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 4000 kB\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 4000 * 1024);
  write_file_atomically(root / "sys/fs/cgroup/memory.max", "2000000\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 2000000);
  write_file_atomically(root / "sys/fs/cgroup/memory.current", "1500000\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 500000);
  write_file_atomically(root / "sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 300000\nactive_file 7\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 800000) << "files can be read again";
  write_file_atomically(root / "sys/fs/cgroup/memory.current", "9000000\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 0) << "a limit that was lowered";
  EXPECT_GT(available_memory_bytes(), 0) << "of this machine";
}

}  // namespace
}  // namespace megacpp::base
