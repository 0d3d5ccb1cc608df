// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/plugins/plugin_identity.h"

#include <gtest/gtest.h>

#include <set>

#include "megacpp/core/base/file.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::runtime::plugins {
namespace {

TEST(PluginIdentityTest, ALibraryIsKnownByItsBuildIdOrItsBytes) {
  const std::string own = library_id("/proc/self/exe");
  EXPECT_GE(own.size(), 16U);
  EXPECT_EQ(own, library_id("/proc/self/exe"));
  const testing_support::TemporaryFolder folder;
  std::set<std::string> ids;
  for (const char* content : {"", "x",
                              "\x7f"
                              "ELF",
                              "no library at all"}) {
    base::write_file_atomically(folder / "plugin.so", content);
    const std::string id = library_id(folder / "plugin.so");
    EXPECT_EQ(id.size(), 16U) << content;
    EXPECT_TRUE(ids.insert(id).second) << content;
  }
}

TEST(PluginIdentityTest, TheDriverIsTheNumberInItsFirstLine) {
  EXPECT_EQ(driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\nGCC 12.2.0\n"),
            "550.54.15");
  EXPECT_EQ(driver_version("nothing known\nGCC 12.2.0\n"), "");
  EXPECT_EQ(driver_version(""), "");
}

}  // namespace
}  // namespace megacpp::runtime::plugins
