// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/catalog/location.h"

#include <gtest/gtest.h>

#include "tests/support/environment.h"
#include "tests/support/errors.h"

namespace megacpp::catalog {
namespace {

using testing_support::Variable;

TEST(LocationTest, TheVariableThenTheDataFolderThenHome) {
  const Variable home("HOME", "/home/a"), data("XDG_DATA_HOME", ""), own("MEGACPP_CATALOG", "");
  EXPECT_EQ(default_path(), "/home/a/.local/share/megacpp/catalog.sqlite");
  const Variable relative("XDG_DATA_HOME", "data");
  EXPECT_EQ(default_path(), "/home/a/.local/share/megacpp/catalog.sqlite");
  const Variable absolute("XDG_DATA_HOME", "/data");
  EXPECT_EQ(default_path(), "/data/megacpp/catalog.sqlite");
  const Variable named("MEGACPP_CATALOG", "my.sqlite");
  EXPECT_EQ(default_path(), "my.sqlite");
}

TEST(LocationTest, NoFolderOfTheUserIsAnErrorOfTheMachine) {
  const Variable home("HOME", ""), data("XDG_DATA_HOME", ""), own("MEGACPP_CATALOG", "");
  const auto problem = testing_support::problem_of(base::Code::E3001, [] { default_path(); });
  EXPECT_NE(problem.next.find("--catalog"), std::string::npos);
}

TEST(LocationTest, FileSystemsOfSeveralMachinesAreKnown) {
  EXPECT_TRUE(is_network_kind(0x6969));       // NFS
  EXPECT_FALSE(is_network_kind(0xEF53));      // ext4
  EXPECT_FALSE(is_network_kind(0x01021994));  // tmpfs
  EXPECT_FALSE(is_on_network("/proc/self/no-such-file"));
}

}  // namespace
}  // namespace megacpp::catalog
