// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/temporary_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::base {
namespace {

class TemporaryFileTest : public ::testing::Test {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const std::filesystem::path& entry : list_folder(folder_.path())) found.insert(entry.filename().string());
    return found;
  }

  testing_support::TemporaryFolder folder_;
  const std::filesystem::path target_ = folder_ / "a.txt";
};

// In a process that is killed in the middle of it.
TEST_F(TemporaryFileTest, WhatAKilledProcessLeftIsRemovedByTheNextThatWrites) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    const TemporaryFile temporary(target_, target_);
    ::kill(::getpid(), SIGKILL);
  }
  ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
  const std::string left = "a.txt.tmp" + std::to_string(writer);
  EXPECT_EQ(names(), std::set<std::string>{left});
  write_file_atomically(target_, "new");
  EXPECT_EQ(names(), std::set<std::string>{"a.txt"});
}

TEST_F(TemporaryFileTest, WhatIsBeingWrittenStaysAndSoDoOtherNames) {
  for (const char* name : {"a.txt.tmp1", "a.txt.tmp", "a.txt.tmp1b", "b.txt.tmp1", "a.txt1"})
    write_file_atomically(folder_ / name, "");
  {
    TemporaryFile temporary(target_, target_);
    remove_abandoned_temporaries(target_);
    EXPECT_EQ(names(), (std::set<std::string>{"a.txt.tmp", "a.txt.tmp" + std::to_string(::getpid()), "a.txt.tmp1b",
                                              "a.txt1", "b.txt.tmp1"}));
    temporary.take_place();
  }
  EXPECT_EQ(names(), (std::set<std::string>{"a.txt", "a.txt.tmp", "a.txt.tmp1b", "a.txt1", "b.txt.tmp1"}));
}

TEST_F(TemporaryFileTest, WhatGetsNoPlaceIsRemoved) {
  { const TemporaryFile temporary(target_, target_); }
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace megacpp::base
