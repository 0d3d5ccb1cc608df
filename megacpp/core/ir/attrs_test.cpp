// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/attrs.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"

namespace megacpp::ir {
namespace {

TEST(AttrsTest, EntriesAreSortedHoweverTheyWereSet) {
  Attrs attrs{{"b", int64_t{1}}, {"c", 2.5}, {"a", std::string("text")}};
  attrs.set("aa", std::vector<int64_t>{1, 2});
  std::string names;
  for (const auto& [name, value] : attrs.entries()) names += name + " ";
  EXPECT_EQ(names, "a aa b c ");
  EXPECT_EQ(attrs,
            (Attrs{{"c", 2.5}, {"aa", std::vector<int64_t>{1, 2}}, {"a", std::string("text")}, {"b", int64_t{1}}}));
}

TEST(AttrsTest, SetReplacesAndEraseRemoves) {
  Attrs attrs{{"x", int64_t{1}}};
  attrs.set("x", 0.5);
  EXPECT_EQ(attrs.entries().size(), 1u);
  EXPECT_EQ(attrs.real("x"), 0.5);
  attrs.erase("y");
  EXPECT_TRUE(attrs.has("x"));
  attrs.erase("x");
  EXPECT_TRUE(attrs.empty());
}

TEST(AttrsTest, CopiesChangeByThemselves) {
  const Attrs first{{"x", int64_t{1}}, {"y", 2.0}};
  Attrs second = first, third = first;
  EXPECT_EQ(second, first);
  second.set("x", int64_t{3});
  third.erase("y");
  third.erase("absent");
  EXPECT_EQ(first.integer("x"), 1);
  EXPECT_TRUE(first.has("y"));
  EXPECT_EQ(second.integer("x"), 3);
  EXPECT_FALSE(third.has("y"));
  EXPECT_FALSE(second == first);
  second.set("x", int64_t{1});
  EXPECT_EQ(second, first) << "by what they hold";
  third = {};
  third.erase("x");
  EXPECT_EQ(third, Attrs());
}

TEST(AttrsTest, TypedAccessDemandsPresenceAndType) {
  const Attrs attrs{{"i", int64_t{7}}, {"r", 2.0}, {"t", std::string("sum")}, {"l", std::vector<int64_t>{3}}};
  EXPECT_EQ(attrs.integer("i"), 7);
  EXPECT_EQ(attrs.real("r"), 2.0);
  EXPECT_EQ(attrs.text("t"), "sum");
  EXPECT_EQ(attrs.list("l"), (std::vector<int64_t>{3}));
  EXPECT_THROW(attrs.integer("absent"), base::Error);
  EXPECT_THROW(attrs.integer("r"), base::Error);
  EXPECT_THROW(attrs.real("i"), base::Error);
  EXPECT_THROW(attrs.text("l"), base::Error);
  EXPECT_THROW(attrs.list("t"), base::Error);
}

TEST(AttrsTest, FallbacksServeAbsenceButNotAWrongType) {
  const Attrs attrs{{"on", int64_t{1}}, {"off", int64_t{0}}, {"r", 2.0}};
  EXPECT_EQ(attrs.integer("absent", 4), 4);
  EXPECT_EQ(attrs.real("absent", 0.25), 0.25);
  EXPECT_EQ(attrs.text("absent", "none"), "none");
  EXPECT_TRUE(attrs.flag("on"));
  EXPECT_FALSE(attrs.flag("off"));
  EXPECT_FALSE(attrs.flag("absent"));
  EXPECT_THROW(attrs.integer("r", 4), base::Error);
}

}  // namespace
}  // namespace megacpp::ir
