// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/collective_comparison.h"

#include <gtest/gtest.h>

namespace megacpp::cli {
namespace {

const ir::Mesh kMesh({{"data", 2}, {"expert", 1}, {"model", 4}});

compile::CollectiveRow ours(compile::Phase phase, const char* kind, const char* axes, int64_t calls, int64_t bytes) {
  return {.phase = phase, .kind = kind, .axes = axes, .calls = calls, .bytes = bytes, .removal = {}, .cost_bytes = {}};
}

runtime::pjrt::XlaCollective theirs(const char* kind, const char* axes, int64_t calls, int64_t bytes) {
  return {.kind = kind, .axes = axes, .bytes = bytes, .calls = calls, .name = {}, .op_name = {}};
}

TEST(CollectiveComparisonTest, RowsOfAStepMeetByKindAndAxes) {
  using compile::Phase;
  const std::vector<CollectiveComparison> rows = compare_collectives(
      {theirs("all_reduce", "data+model", 1, 48), theirs("all_gather", "data", 6, 100),
       theirs("permute", "model", 2, 10), theirs("all_to_all", "model", 3, 7)},
      {ours(Phase::forward, "all_gather", "data", 2, 100), ours(Phase::update, "all_gather", "data", 1, 100),
       ours(Phase::backward, "all_reduce", "model+data", 1, 8), ours(Phase::update, "reduce_scatter", "data", 1, 5),
       ours(Phase::update, "all_to_all", "model+expert", 1, 21)},
      3, kMesh);
  ASSERT_EQ(rows.size(), 5u);
  // Three micro-steps: 2 x 3 gathers and one in the update.
  EXPECT_EQ(rows[0].kind, "all_gather");
  EXPECT_EQ(rows[0].ours.calls, 7);
  EXPECT_EQ(rows[0].ours.bytes, 700);
  EXPECT_EQ(rows[0].xla.bytes, 600);
  EXPECT_EQ(rows[0].difference(), "bytes -14.29%");
  EXPECT_EQ(rows[1].axes, "data+model");
  EXPECT_EQ(rows[1].ours.bytes, 24);
  EXPECT_EQ(rows[1].difference(), "bytes x2");
  EXPECT_EQ(rows[2].kind, "all_to_all");
  EXPECT_EQ(rows[2].axes, "model");
  EXPECT_EQ(rows[2].difference(), "calls");
  EXPECT_EQ(rows[3].difference(), "XLA only");
  EXPECT_EQ(rows[4].difference(), "ours only");
}

TEST(CollectiveComparisonTest, EqualRowsDoNotDiffer) {
  const auto rows = compare_collectives({theirs("all_gather", "data", 2, 100)},
                                        {ours(compile::Phase::forward, "all_gather", "data", 2, 100)}, 1, kMesh);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].difference(), "");
}

}  // namespace
}  // namespace megacpp::cli
