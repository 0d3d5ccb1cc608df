// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/machine_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "megacpp/base/file.h"
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

}  // namespace
}  // namespace megacpp::base
