// SPDX-License-Identifier: Apache-2.0
#include "megacpp/program/memory/report.h"

#include <gtest/gtest.h>

namespace megacpp::memory {
namespace {

using ir::Role;

const MemoryPlan kPlan = {.total_bytes = 3100,
                          .padding_bytes = 0,
                          .items = {{Role::weight, "A", "block00", 100},
                                    {Role::activation, "A", "block00", 50},
                                    {Role::weight, "M", "block01", 1000},
                                    {Role::weight, "A", "block02", 100},
                                    {Role::activation, "A", "block02", 50},
                                    {Role::weight, "A", "block04", 700},
                                    {Role::weight, "", "embed", 1000},
                                    {Role::weight, "", "head", 100}}};

TEST(MemoryReportTest, TablesHaveARowForEachNameAndAColumnForEachRole) {
  const MemoryTable letters = by_letter(kPlan);
  EXPECT_EQ(letters.roles, (std::vector<Role>{Role::weight, Role::activation}));
  ASSERT_EQ(letters.rows.size(), 3U);
  EXPECT_EQ(letters.rows[1].name, "A");
  EXPECT_EQ(letters.rows[1].bytes, (std::vector<int64_t>{900, 100}));
  int64_t sum = 0;
  for (const MemoryTable::Row& row : by_block(kPlan).rows) sum += row.total();
  EXPECT_EQ(sum, kPlan.total_bytes);
}

// What stands outside families is named each by itself, however alike.
TEST(MemoryReportTest, BlocksOfAFamilyThatNeedTheSameAreOneRow) {
  const MemoryTable blocks = by_alike_blocks(kPlan);
  std::vector<std::string> names;
  for (const MemoryTable::Row& row : blocks.rows) names.push_back(row.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"A block00 .. block02 (2 alike)", "M block01", "A block04", "embed", "head"}));
  EXPECT_EQ(blocks.rows[0].total(), 150) << "of one of them";
}

TEST(MemoryReportTest, TheTextIsAsWideAsItsNames) {
  EXPECT_EQ(to_text(by_letter(kPlan), "letter"),
            "letter               weight   activation        total\n"
            "-                  1.07 KiB            .     1.07 KiB\n"
            "A                     900 B        100 B       1000 B\n"
            "M                    1000 B            .       1000 B\n");
}

}  // namespace
}  // namespace megacpp::memory
