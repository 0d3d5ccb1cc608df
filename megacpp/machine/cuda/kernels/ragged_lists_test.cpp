// SPDX-License-Identifier: Apache-2.0
#include "megacpp/machine/cuda/kernels/ragged_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace megacpp::runtime::cuda {
namespace {

int64_t up_to(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// What ragged_rows writes for these counts.
int64_t segments_for(const RowLists& lists, const std::vector<int64_t>& counts) {
  const RowLayout& layout = lists.layout;
  int64_t all = 0;
  for (int64_t expert = 0; expert < layout.experts; ++expert) {
    int64_t segments = 0;
    for (int64_t chunk = 0; chunk < layout.chunks; ++chunk)
      segments += up_to(counts[static_cast<size_t>(chunk * layout.experts + expert)], kSegmentRows) / kSegmentRows;
    all += up_to(segments, lists.unit);
  }
  return all;
}

TEST(RaggedListsTest, LayoutsOfBothKindsOfRows) {
  const ir::TensorType counts{ir::DType::i32, {2, 3, 4}};
  const RowLayout packed = row_layout({ir::DType::bf16, {2, 3, 100, 64}}, counts);
  EXPECT_EQ(packed.chunks, 6);
  EXPECT_EQ(packed.experts, 4);
  EXPECT_EQ(packed.chunk_rows, 100);
  EXPECT_EQ(packed.expert_rows, 0);
  const RowLayout places = row_layout({ir::DType::bf16, {2, 3, 4, 25, 64}}, counts);
  EXPECT_EQ(places.chunk_rows, 100);
  EXPECT_EQ(places.expert_rows, 25);
}

TEST(RaggedListsTest, NoCountsMakeLongerListsThanWerePlanned) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const int64_t experts = 1 + random() % 6, chunks = 1 + random() % 4, chunk_rows = 1 + random() % 300;
    const RowLists lists{{chunks, experts, chunk_rows, 0}, static_cast<int32_t>(std::array{1, 2, 8}[random() % 3])};
    std::vector<int64_t> counts;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      int64_t left = chunk_rows;
      for (int64_t expert = 0; expert < experts; ++expert) {
        // One row into a segment is the worst that a group can do.
        const int64_t count = std::min<int64_t>(left, static_cast<int64_t>(random() % 4) * kSegmentRows + random() % 2);
        counts.push_back(count);
        left -= count;
      }
    }
    ASSERT_LE(segments_for(lists, counts), lists.segments())
        << chunks << " chunks of " << chunk_rows << " rows, " << experts << " experts, unit " << lists.unit;
  }
}

TEST(RaggedListsTest, PartsOfTheWorkspaceAreAlignedAndFollowEachOther) {
  const RowLists lists{{8, 64, 8192, 0}, 8};
  EXPECT_GE(lists.groups_at(), 65 * 4);
  EXPECT_GE(lists.segments_at(), lists.groups_at() + 8 * 64 * static_cast<int64_t>(sizeof(RowGroup)));
  EXPECT_GE(lists.bytes(), lists.segments_at() + lists.segments() * static_cast<int64_t>(sizeof(Segment)));
  for (const int64_t offset : {lists.groups_at(), lists.segments_at(), lists.bytes()})
    EXPECT_EQ(offset % kAlignment, 0);
}

}  // namespace
}  // namespace megacpp::runtime::cuda
