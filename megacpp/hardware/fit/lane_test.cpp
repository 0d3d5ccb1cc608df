// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/lane.h"

#include <gtest/gtest.h>

namespace megacpp::fit {
namespace {

TEST(LaneTest, IsTheBackendTheChipWhoPlacesCollectivesAndOnGpusWhetherBlocksAreLoops) {
  EXPECT_EQ(to_text(Lane{.backend = "cpu", .hardware = "host", .placement = {}}), "cpu host");
  EXPECT_EQ(to_text(Lane{.backend = "xla", .hardware = "v6e", .placement = recipe::XlaPlacement::xla}),
            "xla v6e placement=xla");
  EXPECT_EQ(to_text(Lane{
                .backend = "xla", .hardware = "h200", .placement = recipe::XlaPlacement::xla, .loops = LaneLoops::off}),
            "xla h200 placement=xla loops=off");
  EXPECT_EQ(
      to_text(Lane{
          .backend = "xla", .hardware = "h200", .placement = recipe::XlaPlacement::megacpp, .loops = LaneLoops::on}),
      "xla h200 placement=megacpp loops=on");
}

}  // namespace
}  // namespace megacpp::fit
