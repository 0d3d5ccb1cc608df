// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/regex.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/errors.h"

namespace megacpp::data::bpe {
namespace {

std::vector<std::string> matches_of(std::string_view pattern, const std::string& text) {
  std::vector<std::string> found;
  Regex(pattern, "test").for_each_match(text, [&](size_t begin, size_t end) {
    found.push_back(text.substr(begin, end - begin));
  });
  return found;
}

base::Problem refusal_of(std::string_view pattern) {
  return testing_support::problem_of(base::Code::E1113, [&] { Regex(pattern, "the place"); });
}

TEST(RegexTest, MeansWhatOnigurumaMeans) {
  using Found = std::vector<std::string>;
  EXPECT_EQ(matches_of(R"(\h+)", "xyz 1aF"), (Found{"1aF"})) << "hexadecimal digits";
  EXPECT_EQ(matches_of(R"(\w+)", "e\u0301t-\u24b6_"), (Found{"e\u0301t", "\u24b6_"})) << "marks and circled letters";
  EXPECT_EQ(matches_of(R"([^\s\w]+)", "a\u180e b!"), (Found{"\u180e", "!"})) << "U+180E is no space";
  EXPECT_EQ(matches_of("^b", "a\nb"), (Found{"b"})) << "^ is the begin of a line";
  EXPECT_EQ(matches_of(R"([\u4e00-\u9fa5]+)", "a\u4e2d"), (Found{"\u4e2d"}));
  EXPECT_EQ(matches_of("[]x]+", "a]x"), (Found{"]x"}));
  EXPECT_EQ(matches_of("[[:alpha:]_]+", "1ab_"), (Found{"ab_"}));
}

TEST(RegexTest, RefusesWhatCannotBeUsed) {
  EXPECT_NE(refusal_of("(").got.find("missing"), std::string::npos);
  EXPECT_EQ(refusal_of("a*").where, "the place");
  EXPECT_NE(refusal_of("a*").got.find("empty text"), std::string::npos);
  EXPECT_NE(refusal_of("[a[bc]]").wanted.find("plain members"), std::string::npos);
  EXPECT_NE(refusal_of("[a-z&&b-c]").wanted.find("plain members"), std::string::npos);
  EXPECT_NE(refusal_of("[[:alpha").got.find(":]"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(20'000, 'a')).got.find("20000"), std::string::npos);
  EXPECT_NE(refusal_of(R"(\u12)").wanted.find("four"), std::string::npos);
  EXPECT_FALSE(refusal_of(R"(\p{Klingon})").got.empty());
  EXPECT_FALSE(refusal_of("\xff").got.empty());
}

TEST(RegexTest, StopsWhereMatchingBlowsUp) {
  const Regex regex(R"((a|aa)+$x|(a+)+b)", "the place");
  const std::string text = std::string(5000, 'a') + "c";
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1113, [&] { regex.for_each_match(text, [](size_t, size_t) {}); });
  EXPECT_EQ(problem.where, "the place");
  EXPECT_NE(problem.wanted.find("steps"), std::string::npos);
}

TEST(RegexTest, RefusesEmptyMatchesOfAssertions) {
  const Regex regex(R"(a\Kb|(?=c)c\K)", "the place");
  EXPECT_EQ(testing_support::error_of([&] { regex.for_each_match("xxc", [](size_t, size_t) {}); }).code(),
            base::Code::E1113);
}

}  // namespace
}  // namespace megacpp::data::bpe
