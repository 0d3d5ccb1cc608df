// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/text_table.h"

#include <gtest/gtest.h>

namespace megacpp::cli {
namespace {

TEST(TextTableTest, ColumnsAreAsWideAsTheyNeedToBe) {
  TextTable table({"name", ">bytes", "note"});
  table.add({"a", "12", "short"});
  table.add_line("all of them");
  table.add({"longer", "1", ""});
  EXPECT_EQ(table.to_text(),
            "name    bytes  note\n"
            "a          12  short\n"
            "all of them\n"
            "longer      1\n");
}

TEST(TextTableTest, AColumnThatIsBoundedGoesOnBelow) {
  TextTable table({"probe", "here", "what to do"});
  table.wrap(1, 8);
  table.wrap(2, 10);
  table.add({"a", "one two three", "install it"});
  table.add({"b", "0123456789abcdef!", ""});
  EXPECT_EQ(table.to_text(),
            "probe  here      what to do\n"
            "a      one two   install it\n"
            "       three\n"
            "b      01234567\n"
            "       89abcdef\n"
            "       !\n");
}

}  // namespace
}  // namespace megacpp::cli
