// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/words.h"

#include <gtest/gtest.h>

namespace megacpp::base {
namespace {

enum class Fruit : uint8_t { apple, pear, unnamed };

constexpr auto words_of(Fruit) {
  return std::to_array<Word<Fruit>>({{Fruit::pear, "pear", "green"}, {Fruit::apple, "apple"}});
}

static_assert(HasWords<Fruit>);
static_assert(!HasWords<int> && !HasWords<Code>);

TEST(WordsTest, AValueIsWrittenAndReadByItsWord) {
  for (const Fruit fruit : {Fruit::apple, Fruit::pear}) {
    Fruit read = Fruit::unnamed;
    EXPECT_TRUE(read_text(text_of(fruit), read));
    EXPECT_EQ(read, fruit);
  }
  EXPECT_EQ(text_of(Fruit::apple), "apple");
}

TEST(WordsTest, AnotherTextLeavesTheValueAsItWas) {
  for (const char* text : {"plum", "", "Pear"}) {
    Fruit read = Fruit::pear;
    EXPECT_FALSE(read_text(text, read)) << text;
    EXPECT_EQ(read, Fruit::pear);
  }
}

TEST(WordsTest, WordsKeepTheOrderOfTheirTable) {
  EXPECT_EQ(all_words<Fruit>(), (std::vector<std::string>{"pear", "apple"}));
}

TEST(WordsTest, AValueWithoutAWordIsAnError) { EXPECT_THROW(text_of(Fruit::unnamed), Error); }

}  // namespace
}  // namespace megacpp::base
