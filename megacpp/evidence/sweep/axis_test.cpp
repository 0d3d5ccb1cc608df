// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/axis.h"

#include <gtest/gtest.h>

#include "megacpp/core/base/error.h"

namespace megacpp::sweep {
namespace {

TEST(AxisTest, ValuesAreSplitOutsideOfBrackets) {
  const Axis axis = parse_axis("layout.tensor_parallel=1,2,4");
  EXPECT_EQ(axis.key, "layout.tensor_parallel");
  EXPECT_EQ(axis.values, (std::vector<std::string>{"1", "2", "4"}));
  EXPECT_EQ(parse_axis("ladder.rungs=[batch, sequence],[]").values,
            (std::vector<std::string>{"[batch, sequence]", "[]"}));
}

TEST(AxisTest, EveryMistakeIsNamed) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"layout.tensor_parallel", "no key=values"},
      {"=1,2", "no key=values"},
      {"layout.tensor_parallel=", "an empty value"},
      {"layout.tensor_parallel=1,,2", "an empty value"},
      {"layout.tensor_parallel=1", "one value"},
      {"layout.tensor_parallel=1,2,1", "'1' twice"},
      {"layout.tensr_parallel=1,2", "'layout.tensr_parallel'"}};
  for (const auto& [text, got] : mistakes) {
    try {
      parse_axis(text);
      FAIL() << text;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.problem().got, got) << text;
      EXPECT_EQ(error.exit_status(), 2);
    }
  }
}

TEST(AxisTest, EveryValueRunsOnceBeforeAnyIsRepeated) {
  const std::vector<Trial> trials = interleaved(3, 2);
  EXPECT_EQ(trials, (std::vector<Trial>{{0, 0}, {1, 0}, {2, 0}, {1, 1}, {2, 1}, {0, 1}}));
}

}  // namespace
}  // namespace megacpp::sweep
