// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schema/record_keys.h"

#include <gtest/gtest.h>

namespace megacpp::schema {
namespace {

struct Limits {
  ByteSize bytes = {};
  bool is_hard = true;
};

struct Settings {
  int64_t heads = 4;
  std::string activation = "swiglu";
  Limits limits = {};
};

template <typename Visit, base::Is<Settings> Self>
void visit_fields(const Visit& visit, Self& settings) {
  visit("heads", settings.heads, between(1, 64), "Query heads.");
  visit("activation", settings.activation, one_of("swiglu", "relu2"), "Function.");
  visit("limits.bytes", settings.limits.bytes, "Bytes of " + std::string("a chip") + ".");
  visit("limits.is_hard", settings.limits.is_hard);
}

TEST(RecordKeysTest, EveryMemberIsAKey) {
  const std::vector<Key<Settings>> keys = keys_of<Settings>();
  ASSERT_EQ(keys.size(), 4U);
  EXPECT_EQ(keys[0].path, "heads");
  EXPECT_EQ(keys[0].kind, Kind::integer);
  EXPECT_EQ(describe(keys[0].range), describe(between(1, 64)));
  EXPECT_EQ(keys[1].range.choices, (std::vector<std::string>{"swiglu", "relu2"}));
  EXPECT_EQ(keys[2].kind, Kind::bytes);
  EXPECT_EQ(keys[2].doc, "Bytes of a chip.");
  EXPECT_EQ(keys[3].kind, Kind::flag);
  EXPECT_EQ(keys[3].doc, "");
}

TEST(RecordKeysTest, AKeyLeadsToTheMemberOfAnyRecord) {
  const std::vector<Key<Settings>> keys = keys_of<Settings>();
  Settings first, second;
  *std::get<int64_t*>(keys[0].member(first)) = 9;
  *std::get<bool*>(keys[3].member(second)) = false;
  EXPECT_EQ(first.heads, 9);
  EXPECT_EQ(second.heads, 4);
  EXPECT_TRUE(first.limits.is_hard);
  EXPECT_FALSE(second.limits.is_hard);
  EXPECT_EQ(value_text(member_of(keys[1], first)), "swiglu");
}

}  // namespace
}  // namespace megacpp::schema
