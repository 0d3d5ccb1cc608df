// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/key.h"

#include <gtest/gtest.h>

namespace megacpp::schema {
namespace {

struct Record {
  int64_t heads = 4;
  std::string activation = "swiglu";
  ByteSize limit;
};

TEST(KeyTest, AFieldGivesKindAndMember) {
  Record record;
  const Key<Record> heads = key<&Record::heads>("heads", between(1, 64), "Query heads.");
  EXPECT_EQ(heads.kind, Kind::integer);
  *std::get<int64_t*>(heads.member(record)) = 9;
  EXPECT_EQ(record.heads, 9);
  EXPECT_EQ(value_text(member_of(heads, record)), "9");
  EXPECT_EQ(key<&Record::limit>("limit", any(), "Bytes.").kind, Kind::bytes);
}

TEST(KeyTest, SaysWhatToDoAboutAValueOutsideItsRange) {
  Record record{.heads = 100, .activation = "swigluu", .limit = {}};
  const Key<Record> heads = key<&Record::heads>("heads", between(1, 64), "Query heads.");
  EXPECT_EQ(next_step(heads, member_of(heads, record)), "set heads: 64");
  const Key<Record> activation = key<&Record::activation>("activation", one_of("swiglu", "relu2"), "Function.");
  EXPECT_EQ(next_step(activation, member_of(activation, record)), "did you mean 'swiglu'?");
  record.activation = "tanh";
  EXPECT_EQ(next_step(activation, member_of(activation, record)), "activation: Function.");
}

TEST(KeyTest, ARowOfTheTableEscapesWhatMarkdownReads) {
  const Key<Record> heads = key<&Record::heads>("heads", at_least(1), "One | two.");
  EXPECT_EQ(table_row(heads, "`4`"), "| `heads` | an integer | `4` | at least 1 | One \\| two. |\n");
}

}  // namespace
}  // namespace megacpp::schema
