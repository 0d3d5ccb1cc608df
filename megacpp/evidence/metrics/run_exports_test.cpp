// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/metrics/run_exports.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "tests/support/errors.h"
#include "tests/support/read_events.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/whole_report.h"

namespace megacpp::metrics {
namespace {

TEST(RunExportsTest, ARunThatGoesDownTheLadderBeginsAnotherFile) {
  const testing_support::TemporaryFolder folder;
  RunExports exports({.tensorboard = true}, launch::no_log);
  exports.begin(folder.path(), 4);
  exports.begin(folder.path(), 4);
  exports.add(testing_support::whole_report());
  const std::vector<std::filesystem::path> files = base::list_folder(folder.path());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(testing_support::read_events(base::read_file(files[0])).size(), 2U);
  EXPECT_EQ(testing_support::read_events(base::read_file(files[1])).size(), 5U);
}

TEST(RunExportsTest, WhatIsNotRequestedIsNotThere) {
  const testing_support::TemporaryFolder folder;
  RunExports exports({}, [](const launch::Line& line) { ADD_FAILURE() << line.text; });
  exports.begin(folder.path(), 0);
  exports.add(testing_support::whole_report());
  EXPECT_TRUE(base::list_folder(folder.path()).empty());
}

}  // namespace
}  // namespace megacpp::metrics
