// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/path.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>

#include "megacpp/core/base/file.h"
#include "tests/support/errors.h"
#include "tests/support/no_memory.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::base {
namespace {

using testing_support::problem_of;

class PathTest : public testing::Test {
 protected:
  PathTest() {
    write_file_atomically(folder_ / "file", "text");
    std::filesystem::create_directories(folder_ / "sub");
    std::filesystem::create_symlink("loop", folder_ / "loop");
    std::filesystem::create_symlink("sub", folder_ / "link");
    std::filesystem::create_symlink("nothing", folder_ / "dangling");
  }

  testing_support::TemporaryFolder folder_;
};

TEST_F(PathTest, WhatIsThereIsTold) {
  for (const char* name : {"file", "sub", "link"}) EXPECT_TRUE(base::exists(folder_ / name)) << name;
  for (const char* name : {"nothing", "dangling", "file/below"}) EXPECT_FALSE(base::exists(folder_ / name)) << name;
  EXPECT_FALSE(base::exists(""));
  EXPECT_TRUE(is_folder(folder_ / "link"));
  EXPECT_FALSE(is_folder(folder_ / "file"));
  EXPECT_EQ(file_bytes(folder_ / "file"), 4);
  EXPECT_EQ(base::canonical(folder_ / "link/."), base::canonical(folder_ / "sub/"));
  EXPECT_EQ(base::absolute("a").filename(), "a");
}

TEST_F(PathTest, WhatTheSystemCannotSayIsAnErrorWithACode) {
  for (const std::filesystem::path& path :
       {folder_ / "loop", folder_ / "loop/below", folder_ / std::string(300, 'x')}) {
    for (const Problem& problem :
         {problem_of(Code::E1008, [&] { base::exists(path); }), problem_of(Code::E1008, [&] { is_folder(path); }),
          problem_of(Code::E1008, [&] { file_bytes(path); }), problem_of(Code::E1008, [&] { base::canonical(path); }),
          problem_of(Code::E1008, [&] { list_folder(path); })})
      EXPECT_EQ(problem.where, path.string());
  }
  problem_of(Code::E1008, [&] { file_bytes(folder_ / "nothing"); });
  problem_of(Code::E1008, [&] { base::canonical(folder_ / "nothing"); });
  problem_of(Code::E1008, [] { base::absolute(""); });
}

TEST_F(PathTest, ATreeIsRemovedAndWhatLinksLeadToStays) {
  std::filesystem::create_directories(folder_ / "tree" / "deep");
  write_file_atomically(folder_ / "tree" / "deep" / "file", "text");
  std::filesystem::create_symlink(folder_ / "sub", folder_ / "tree" / "out");
  write_file_atomically(folder_ / "sub" / "kept", "text");
  EXPECT_FALSE(remove_tree(folder_ / "tree"));
  EXPECT_FALSE(remove_tree(folder_ / "link"));
  EXPECT_FALSE(remove_tree(folder_ / "file"));
  EXPECT_FALSE(remove_tree(folder_ / "nothing"));
  EXPECT_EQ(remove_tree(folder_ / std::string(300, 'x')), std::errc::filename_too_long);
  for (const char* name : {"tree", "link", "file"}) EXPECT_FALSE(std::filesystem::exists(folder_ / name)) << name;
  EXPECT_TRUE(base::exists(folder_ / "sub" / "kept"));
}

// The directory walk of the standard library would end the process.
TEST_F(PathTest, MemoryThatRunsOutWhileAFolderIsListedIsAnExceptionAndNotTheEnd) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space";
#endif
  std::filesystem::create_directories(folder_ / "many");
  for (int i = 0; i < 3000; ++i)
    std::filesystem::create_symlink("nothing", folder_ / "many" / (std::string(200, 'x') + std::to_string(i)));
  const auto list_without_room = [&] {
    void* const room = std::malloc(100'000);  // enough to begin with
    testing_support::leave_no_memory();
    std::free(room);
    try {
      read_folder(folder_ / "many");
    } catch (const std::bad_alloc&) {
      std::_Exit(0);
    }
    std::_Exit(1);
  };
  EXPECT_EXIT(list_without_room(), testing::ExitedWithCode(0), "");
}

TEST_F(PathTest, AFolderIsListedByName) {
  const std::vector<std::filesystem::path> all = {folder_ / "dangling", folder_ / "file", folder_ / "link",
                                                  folder_ / "loop", folder_ / "sub"};
  EXPECT_EQ(list_folder(folder_.path()), all);
  EXPECT_TRUE(list_folder(folder_ / "nothing").empty());
  EXPECT_TRUE(list_folder(folder_ / "file").empty());
}

}  // namespace
}  // namespace megacpp::base
