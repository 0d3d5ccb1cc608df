// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/yaml_text.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

using namespace std::string_literals;

namespace megacpp::schema {
namespace {

base::Problem problem_of(const std::string& text) {
  return testing_support::problem_of(base::Code::E1004, [&] { load_yaml(text, base::Code::E1004, "a.yaml"); });
}

TEST(YamlTextTest, OneDocumentIsRead) {
  EXPECT_EQ(load_yaml("---\na: 1\r\n# \u00fc\n", base::Code::E1004, "a.yaml")["a"].Scalar(), "1");
  EXPECT_TRUE(load_yaml("", base::Code::E1004, "a.yaml").IsNull());
}

TEST(YamlTextTest, ASecondDocumentIsRefused) {
  const base::Problem problem = problem_of("name: a\n---\nname: b\n");
  EXPECT_EQ(problem.where.substr(0, 7), "a.yaml:");
  EXPECT_EQ(problem.got, "a second document");
}

// In which the library finds documents without end.
TEST(YamlTextTest, AMarkThatBeginsNoValueEndsTheText) {
  for (const char* text : {", l\nname: x\n", "name: x\n, l\n", "]", "} a: b"})
    EXPECT_NE(problem_of(text).got, "") << text;
}

// The library ends the text at byte 4, and a NUL would end a message.
TEST(YamlTextTest, ControlCharactersAndOtherEncodingsAreRefusedWithTheirLine) {
  for (const std::string& bad : {"\0"s, "\4"s, "\xff"s, "\x1b"s}) {
    const base::Problem problem = problem_of("a: 1\nb: x" + bad + "y\nc: 2\n");
    EXPECT_EQ(problem.where, "a.yaml:2");
    EXPECT_EQ(problem.got.substr(0, 6), "b: x\\x") << problem.got;
  }
  EXPECT_EQ(problem_of("a: \"x\\0y\"").got, "'x\\x00y'");
  EXPECT_EQ(problem_of("\"k\\e\": 1").got, "'k\\x1b'");
}

TEST(YamlTextTest, WhatNestsWithoutEndIsRefused) {
  EXPECT_EQ(problem_of("a: &a [*a]").got, "values nested too deeply");
  EXPECT_EQ(problem_of(std::string(100, '[') + std::string(100, ']')).got, "values nested too deeply");
  std::string laughs = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 25; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before + ", " + before + "]\n";
  }
  EXPECT_EQ(problem_of(laughs).got, "values nested too deeply");
}

TEST(YamlTextTest, WhatIsNoYamlNamesItsLine) { EXPECT_EQ(problem_of("a: 1\nb: [1\n").where.substr(0, 7), "a.yaml:"); }

}  // namespace
}  // namespace megacpp::schema
