// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/output_path.h"

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

/// What of a mapped file that something happens to makes it another one.
void expect_changed(const std::filesystem::path& path, const std::function<void()>& change, const std::string& got) {
  write_file_atomically(path, std::string(100'000, 'a'));
  const MappedFile mapped(path);
  mapped.require_unchanged();
  change();
  try {
    mapped.read_unchanged([&] { return mapped.bytes().back(); });
    ADD_FAILURE() << "not seen: " << got;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::E1008);
    EXPECT_EQ(error.problem().where, path.string());
    EXPECT_NE(error.problem().got.find(got), std::string::npos) << error.problem().got;
  }
}

TEST(FileTest, AMappedFileThatChangesIsSeenBeforeItsBytesAreUsed) {
  const auto path = fresh_folder("changes") / "a";
  expect_changed(
      path, [&] { std::filesystem::resize_file(path, 10); }, "that became one of 10 while");
  expect_changed(
      path, [&] { std::filesystem::resize_file(path, 200'000); }, "that became one of 200000 while");
  const auto long_ago = std::filesystem::file_time_type() - std::chrono::hours(1);
  const auto cut_and_regrown = [&] {
    std::filesystem::resize_file(path, 10);
    std::filesystem::resize_file(path, 100'000);
    std::filesystem::last_write_time(path, long_ago);  // surely another than before
  };
  expect_changed(path, cut_and_regrown, "written to while it was read");
  const auto cut_and_gone = [&] {
    std::filesystem::resize_file(path, 10);
    std::filesystem::rename(path, path.string() + ".old");
  };
  expect_changed(path, cut_and_gone, "bytes that cannot be read");
}

TEST(FileTest, AFileThatTakesTheNameOfAMappedOneChangesNothing) {
  const auto path = fresh_folder("replaced") / "a";
  write_file_atomically(path, "first");
  const MappedFile mapped(path);
  write_file_atomically(path, "another");
  mapped.require_unchanged();
  std::filesystem::remove(path);
  EXPECT_EQ(mapped.read_unchanged([&] { return mapped.bytes().size(); }), 5u);
}

// What is wrong with bytes that are no longer the file's is no fault of the file.
TEST(FileTest, AChangeCountsAboveWhatReadingThrows) {
  const auto path = fresh_folder("throws") / "a";
  write_file_atomically(path, "text");
  const MappedFile mapped(path);
  const auto fail = [] { raise(Code::E1201, {.where = "the header"}); };
  EXPECT_EQ(code_of([&] { mapped.read_unchanged(fail); }), Code::E1201);
  std::filesystem::resize_file(path, 1);
  EXPECT_EQ(code_of([&] { mapped.read_unchanged(fail); }), Code::E1008);
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

TEST(FileTest, DevicesAndFifosAreNotReadAndDoNotHang) {
  const auto fifo = fresh_folder("fifo") / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::filesystem::path& path : {std::filesystem::path("/dev/zero"), fifo, std::filesystem::path()}) {
    EXPECT_EQ(code_of([&] { read_file(path); }), Code::E1008);
    EXPECT_EQ(code_of([&] { MappedFile{path}; }), Code::E1008);
  }
}

TEST(FileTest, AFileLargerThanMemoryIsRefused) {
  const auto path = fresh_folder("large") / "a";
  write_file_atomically(path, "x");
  std::error_code error;
  std::filesystem::resize_file(path, uintmax_t{1} << 43, error);  // sparse
  if (error) GTEST_SKIP() << "no sparse file of 8 TiB here: " << error.message();
  EXPECT_EQ(code_of([&] { read_file(path); }), Code::E1008);
}

TEST(FileTest, DevicesAndFifosAreWrittenThroughAndStay) {
  const auto fifo = fresh_folder("through") / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  write_file_atomically("/dev/null", "text");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(code_of([] { write_file_atomically("/dev/full", "text"); }), Code::E3001);
  EXPECT_EQ(code_of([&] { write_file_atomically(fifo, "text"); }), Code::E3001) << "nobody reads it";
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  require_writable("/dev/null");
  require_writable(fifo);
}

TEST(FileTest, ALinkStaysAndWhatItLeadsToIsWritten) {
  const auto folder = fresh_folder("link");
  std::filesystem::create_directories(folder / "sub");
  write_file_atomically(folder / "sub" / "a", "old");
  std::filesystem::create_symlink("sub/a", folder / "link");
  std::filesystem::create_symlink("link", folder / "second");
  std::filesystem::create_symlink("sub/new", folder / "dangling");
  std::filesystem::create_symlink("circle", folder / "circle");
  write_file_atomically(folder / "second", "new");
  write_file_atomically(folder / "dangling", "made");
  EXPECT_EQ(read_file(folder / "sub" / "a"), "new");
  EXPECT_EQ(read_file(folder / "sub" / "new"), "made");
  for (const char* name : {"link", "second", "dangling"}) EXPECT_TRUE(std::filesystem::is_symlink(folder / name));
  EXPECT_EQ(code_of([&] { write_file_atomically(folder / "circle", "x"); }), Code::E3001);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "sub"), {}), 2) << "no temporary is left";
}

TEST(FileTest, TheFileBehindStdoutIsNotReplaced) {
  testing::internal::CaptureStdout();  // into a file
  std::printf("kept");
  const Code code = code_of([] { write_file_atomically("/dev/stdout", "text"); });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "kept");
  EXPECT_EQ(code, Code::E3001);
}

TEST(FileTest, WhatCannotBeWrittenIsKnownBeforehand) {
  const auto folder = fresh_folder("beforehand");
  require_writable(folder / "new");
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "asking leaves nothing behind";
  for (const std::filesystem::path& path : {folder / "no" / "such", folder, std::filesystem::path()})
    EXPECT_EQ(code_of([&] { require_writable(path); }), Code::E3001) << path;
}

// A folder of compiled programs may be named by any text.
TEST(FileTest, AFolderThatCannotBeMadeLeavesNoneBehind) {
  const auto folder = fresh_folder("folders");
  write_file_atomically(folder / "file", "");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  const std::string long_name(300, 'x');
  for (const std::filesystem::path& path :
       {folder / "a" / "b" / long_name, folder / "a" / ".." / "b", folder / "a" / ".." / ".." / "outside",
        folder / "file" / "b", folder / "dangling", folder / "dangling" / "b", std::filesystem::path()})
    EXPECT_EQ(code_of([&] { make_folder(path); }), Code::E3001) << path;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 2) << "as before";
  make_folder(folder / "a" / "." / "b" / "");
  make_folder(folder / "a" / ".." / "c");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a" / "b"));
  EXPECT_TRUE(std::filesystem::is_directory(folder / "c"));
}

}  // namespace
}  // namespace megacpp::base
