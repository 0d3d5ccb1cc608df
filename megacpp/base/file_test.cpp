// SPDX-License-Identifier: Apache-2.0
#include "megacpp/base/file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "megacpp/base/error.h"

namespace megacpp::base {
namespace {

std::filesystem::path fresh_folder(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / ("megacpp_file_" + name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

Code code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return Code::E9001;
}

TEST(FileTest, WhatWasWrittenIsReadAndMappedBack) {
  const auto path = fresh_folder("round") / "a.txt";
  write_file_atomically(path, "hello\n");
  EXPECT_EQ(read_file(path), "hello\n");
  const MappedFile mapped(path);
  ASSERT_EQ(mapped.bytes().size(), 6u);
  EXPECT_EQ(std::memcmp(mapped.bytes().data(), "hello\n", 6), 0);
}

TEST(FileTest, WritingReplacesTheOldFileAndLeavesNoTemporary) {
  const auto folder = fresh_folder("replace");
  write_file_atomically(folder / "a", "old");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(FileTest, AFailedRenameKeepsTheTargetAndRemovesTheTemporary) {
  const auto folder = fresh_folder("failed");
  std::filesystem::create_directories(folder / "target" / "inside");
  EXPECT_EQ(code_of([&] { write_file_atomically(folder / "target", "text"); }), Code::E3001);
  EXPECT_TRUE(std::filesystem::exists(folder / "target" / "inside"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(FileTest, MissingFilesAndFoldersAreEnvironmentErrors) {
  const auto folder = fresh_folder("missing");
  EXPECT_EQ(code_of([&] { read_file(folder / "none"); }), Code::E1008);
  EXPECT_EQ(code_of([&] { read_file(folder); }), Code::E1008);
  EXPECT_EQ(code_of([&] { MappedFile{folder / "none"}; }), Code::E1008);
  EXPECT_EQ(code_of([&] { write_file_atomically(folder / "no" / "such", "x"); }), Code::E3001);
}

TEST(FileTest, AnEmptyFileMapsToNothing) {
  const auto path = fresh_folder("empty") / "a";
  write_file_atomically(path, "");
  EXPECT_TRUE(MappedFile(path).bytes().empty());
  EXPECT_EQ(read_file(path), "");
}

}  // namespace
}  // namespace megacpp::base
