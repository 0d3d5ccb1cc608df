// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace megacpp::base {
namespace {

TEST(SuggestTest, DistanceCountsSingleEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("hiden", "hidden"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(SuggestTest, NearWordIsSuggestedAndFarWordIsNot) {
  const std::vector<std::string> known = {"hidden", "heads", "depth"};
  EXPECT_EQ(nearest("hiden", known), "hidden");
  EXPECT_EQ(nearest("banana", known), std::nullopt);
  EXPECT_EQ(did_you_mean("dept", known, "see --help"), "did you mean 'depth'?");
  EXPECT_EQ(did_you_mean("banana", known, "see --help"), "see --help");
}

}  // namespace
}  // namespace megacpp::base
