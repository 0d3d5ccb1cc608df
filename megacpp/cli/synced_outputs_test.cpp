// SPDX-License-Identifier: Apache-2.0
// What commands leave for later survives a loss of power: its bytes are on disk before it gets its name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "megacpp/core/base/file.h"
#include "tests/support/command_line.h"
#include "tests/support/environment.h"
#include "tests/support/file_calls.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::cli {
namespace {

class SyncedOutputsTest : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  /// The command leaves these files, in this order, and nothing else.
  static void expect_synced(const std::vector<std::string>& words, const std::vector<std::string>& files) {
    const testing_support::FileCalls calls;
    const testing_support::CommandResult result = testing_support::run_command(words);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(calls.renamed(), files);
    EXPECT_EQ(calls.renamed_too_early(), std::vector<std::string>{});
  }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(SyncedOutputsTest, ExportsOfARun) {
  base::make_folder(folder_ / "run");
  base::write_file_atomically(folder_ / "run" / "recipe.yaml", "name: tiny\n");
  expect_synced({"runs", "export", at("run"), "--csv", at("log.csv"), "--tensorboard", at("events")},
                {"log.csv", "events.out.tfevents.0.megacpp"});
}

TEST_F(SyncedOutputsTest, LockFiles) {
  const testing_support::Variable no_plugin("MEGACPP_PJRT_CPU", "/nonexistent/plugin.so");
  expect_synced({"doctor", "--write", at("here.lock")}, {"here.lock"});
}

TEST_F(SyncedOutputsTest, Plans) {
  expect_synced(testing_support::on_recipe("plan", "nam52-tiny.yaml", {}, {"--html", at("plan.html")}), {"plan.html"});
}

}  // namespace
}  // namespace megacpp::cli
