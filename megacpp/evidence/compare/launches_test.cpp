// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/launches.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "megacpp/core/base/file.h"
#include "megacpp/evidence/receipt/store.h"
#include "tests/support/seeded_receipts.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::compare {
namespace {

class LaunchesTest : public testing::Test {
 protected:
  /// A launch that left a receipt and no run, as one whose memory did not suffice.
  std::string launch(const std::string& name) const {
    base::make_folder(folder_ / name);
    receipt::write_receipt(testing_support::seeded_receipt({.name = name}), folder_ / name);
    return (folder_ / name).string();
  }
  static std::vector<std::string> names_of(const ReadReceipts& read) {
    std::vector<std::string> names;
    for (const receipt::Receipt& receipt : read.receipts) names.push_back(receipt.run);
    return names;
  }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(LaunchesTest, AFolderStandsForAllLaunchesInItEachOnce) {
  launch("a");
  const std::string b = launch("b");
  base::make_folder(folder_ / "something else");
  std::filesystem::create_directory_symlink("b", folder_ / "latest");
  const ReadReceipts read = read_launches({folder_.path().string(), b});
  EXPECT_EQ(names_of(read), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(read.skipped.empty());
}

TEST_F(LaunchesTest, ALaunchStandsForItself) {
  const std::string a = launch("a");
  launch("a/inside");
  EXPECT_EQ(names_of(read_launches({a})), std::vector<std::string>{"a"});
}

TEST_F(LaunchesTest, AFolderWithoutLaunchesIsSkippedWithItsReason) {
  const ReadReceipts read = read_launches({folder_.path().string(), (folder_ / "absent").string()});
  EXPECT_TRUE(read.receipts.empty());
  ASSERT_EQ(read.skipped.size(), 2U);
  EXPECT_EQ(read.skipped[0].path, folder_.path());
  EXPECT_EQ(read.skipped[1].path, folder_ / "absent");
}

}  // namespace
}  // namespace megacpp::compare
