// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/compare/memory_moves.h"

#include <gtest/gtest.h>

namespace megacpp::compare {
namespace {

receipt::Memory memory_of(std::vector<receipt::ChipGroup> groups) { return {.planned = std::move(groups)}; }

receipt::ChipGroup chip_with(int64_t planned, std::vector<receipt::MemoryItem> items) {
  return {.chip = 0, .chips = 1, .place = "chip 0", .planned_bytes = planned, .items = std::move(items)};
}

TEST(MemoryMovesTest, ARunWithoutAPlanHasNone) {
  const receipt::Memory planned = memory_of({chip_with(1, {})});
  EXPECT_FALSE(memory_moves({}, planned));
  EXPECT_FALSE(memory_moves(planned, {}));
  EXPECT_TRUE(memory_moves(planned, planned));
}

TEST(MemoryMovesTest, RolesAreSummedByFamilyAndTheLargestMoveIsFirst) {
  const receipt::Memory before = memory_of({chip_with(100, {{.role = "weight", .family = "A", .bytes = 10},
                                                            {.role = "weight", .family = "A", .bytes = 20},
                                                            {.role = "weight", .family = "M", .bytes = 5},
                                                            {.role = "gradient", .family = "A", .bytes = 40}})});
  const receipt::Memory after = memory_of({chip_with(69, {{.role = "weight", .family = "A", .bytes = 40},
                                                          {.role = "weight", .family = "M", .bytes = 5},
                                                          {.role = "workspace", .family = "", .bytes = 2}})});
  const MemoryMoves moves = *memory_moves(before, after);
  EXPECT_EQ(moves.baseline, 100);
  EXPECT_EQ(moves.other, 69);
  ASSERT_EQ(moves.roles.size(), 3U) << "what did not move is left out";
  EXPECT_EQ(moves.roles[0].role, "gradient");
  EXPECT_EQ(moves.roles[0].change(), -40);
  EXPECT_EQ(moves.roles[1].role, "weight");
  EXPECT_EQ(moves.roles[1].family, "A");
  EXPECT_EQ(moves.roles[1].baseline, 30);
  EXPECT_EQ(moves.roles[1].other, 40);
  EXPECT_EQ(moves.roles[2].change(), 2);
  EXPECT_EQ(moves.unexplained, -31 - (-40 + 10 + 2));
}

// The first group is the one with the least free.
TEST(MemoryMovesTest, TheWorstChipOfEachRunIsCompared) {
  const receipt::Memory before = memory_of({{.chip = 1, .chips = 1, .place = "chip 1", .planned_bytes = 90},
                                            {.chip = 0, .chips = 1, .place = "chip 0", .planned_bytes = 50}});
  const receipt::Memory after = memory_of({{.chip = 0, .chips = 2, .place = "chip 0", .planned_bytes = 60}});
  const MemoryMoves moves = *memory_moves(before, after);
  EXPECT_EQ(moves.baseline_chip, "chip 1");
  EXPECT_EQ(moves.other_chip, "chip 0");
  EXPECT_EQ(moves.change(), -30);
  ASSERT_EQ(moves.chips.size(), 2U);
  EXPECT_EQ(moves.chips[0].baseline, 50);
  EXPECT_EQ(moves.chips[0].other, 60);
  EXPECT_EQ(moves.chips[1].baseline, 90);
  EXPECT_EQ(moves.chips[1].other, 60);
}

TEST(MemoryMovesTest, OfAChipThatAPlanDoesNotTellNothingIsSaid) {
  const receipt::Memory before = memory_of({{.chip = 0, .chips = 2, .place = "chip 0", .planned_bytes = 60}});
  const receipt::Memory after = memory_of({{.chip = 0, .chips = 1, .place = "chip 0", .planned_bytes = 60},
                                           {.chip = 2, .chips = 2, .place = "chip 2", .planned_bytes = 60}});
  const MemoryMoves moves = *memory_moves(before, after);
  ASSERT_EQ(moves.chips.size(), 1U) << "chip 0 is the same";
  EXPECT_EQ(moves.chips[0].place, "chip 2");
  EXPECT_FALSE(moves.chips[0].baseline) << "it has two chips, 0 and 1";
  EXPECT_EQ(moves.chips[0].other, 60);
}

}  // namespace
}  // namespace megacpp::compare
