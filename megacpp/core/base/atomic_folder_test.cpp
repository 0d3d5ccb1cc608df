// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/atomic_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::base {
namespace {

using testing_support::problem_of;
using testing_support::TemporaryFolder;

TEST(AtomicFolderTest, IsThereOnceItIsCommitted) {
  const TemporaryFolder folder;
  for (const char* name : {"plain", "slash/", "deeper/inside/"}) {
    AtomicFolder atomic(folder / name);
    write_file_atomically(atomic.path() / "file", "text");
    EXPECT_FALSE(base::exists(folder / name)) << name;
    atomic.commit();
    EXPECT_EQ(read_file(folder / name / "file"), "text") << name;
  }
  EXPECT_EQ(list_folder(folder.path()).size(), 3u);
  EXPECT_EQ(list_folder(folder / "slash").size(), 1u);
}

TEST(AtomicFolderTest, LeavesNothingWithoutACommit) {
  const TemporaryFolder folder;
  { const AtomicFolder atomic(folder / "new"); }
  EXPECT_TRUE(list_folder(folder.path()).empty());
}

TEST(AtomicFolderTest, WhatIsThereIsRefusedAndStays) {
  const TemporaryFolder folder;
  make_folder(folder / "there");
  write_file_atomically(folder / "there" / "file", "text");
  for (const char* name : {"there", "there/", "there/file"})
    problem_of(Code::E3001, [&] { AtomicFolder{folder / name}; });
  // Of another process with the same number, as in another container.
  const std::string partial = "new.partial" + std::to_string(::getpid());
  make_folder(folder / partial);
  write_file_atomically(folder / partial / "file", "text");
  problem_of(Code::E3001, [&] { AtomicFolder{folder / "new"}; });
  EXPECT_EQ(read_file(folder / partial / "file"), "text");
  EXPECT_EQ(read_file(folder / "there" / "file"), "text");
  problem_of(Code::E3001, [] { AtomicFolder{""}; });
  problem_of(Code::E3001, [] { AtomicFolder{"/"}; });
}

}  // namespace
}  // namespace megacpp::base
