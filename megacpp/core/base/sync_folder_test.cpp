// SPDX-License-Identifier: Apache-2.0
// What a loss of power may not take: the order in which files and folders are synced and get their names.
#include "megacpp/core/base/sync_folder.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "megacpp/core/base/atomic_folder.h"
#include "megacpp/core/base/file.h"
#include "tests/support/errors.h"
#include "tests/support/file_calls.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::base {
namespace {

using Names = std::vector<std::string>;

TEST(SyncedNamesTest, AFileIsSyncedBeforeItGetsItsName) {
  const testing_support::TemporaryFolder folder;
  const std::string first = "first ", second = "second";
  const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(first)),
                                                           std::as_bytes(std::span(second))};
  const testing_support::FileCalls calls;
  write_file_atomically(folder / "text", "text");
  write_file_atomically(folder / "parts", parts);
  EXPECT_EQ(calls.renamed(), (Names{"text", "parts"}));
  EXPECT_EQ(calls.renamed_too_early(), Names{});
}

TEST(SyncedNamesTest, AFolderIsSyncedBeforeItGetsItsName) {
  const testing_support::TemporaryFolder folder;
  const testing_support::FileCalls calls;
  AtomicFolder atomic(folder / "new");
  write_file_atomically(atomic.path() / "file", "text");
  atomic.commit();
  EXPECT_EQ(calls.renamed(), (Names{"file", "new"}));
  EXPECT_EQ(calls.renamed_too_early(), Names{});
}

// The recorder itself: what it is to find.
TEST(SyncedNamesTest, WhatIsNotSyncedIsSeen) {
  const testing_support::TemporaryFolder folder;
  write_file_atomically(folder / "old", "text");
  const testing_support::FileCalls calls;
  std::filesystem::rename(folder / "old", folder / "aside");
  EXPECT_EQ(calls.renamed_too_early(), Names{}) << "nobody has changed it";
  EXPECT_FALSE(calls.is_name_synced(folder / "aside"));
  std::filesystem::rename(folder.path(), folder.path().string() + ".moved");
  EXPECT_EQ(calls.renamed_too_early().size(), 1u) << "of the folder, whose names were not synced";
  std::filesystem::rename(folder.path().string() + ".moved", folder.path());
  std::filesystem::rename(folder / "aside", folder / "back");
  sync_folder(folder.path());
  EXPECT_TRUE(calls.is_name_synced(folder / "back"));
}

TEST(SyncedNamesTest, AFolderThatIsNotThereCannotBeSynced) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(testing_support::problem_of(Code::E3001, [&] { sync_folder(folder / "none"); }).got,
            "cannot open: No such file or directory");
}

}  // namespace
}  // namespace megacpp::base
