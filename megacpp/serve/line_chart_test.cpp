// SPDX-License-Identifier: Apache-2.0
#include "megacpp/serve/line_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/support/text.h"
#include "tests/support/well_formed.h"

namespace megacpp::serve {
namespace {

using testing_support::count_of;
using testing_support::has;

LineChart chart_of(std::vector<LinePoint> points) {
  const auto plain = [](double value) { return fmt::format("{:.1f}", value); };
  return {.title = "loss <1>",
          .x_title = "step",
          .y_title = "loss",
          .x_text = plain,
          .y_text = plain,
          .points = std::move(points)};
}

TEST(LineChartTest, DrawsALineAndItsLastNumber) {
  const std::string svg = line_chart(chart_of({{0, 4}, {1, 2}, {2, 3}}));
  EXPECT_EQ(testing_support::unbalanced_tag(svg), "");
  EXPECT_TRUE(has(svg, "aria-label=\"loss &lt;1&gt;\"")) << svg;
  EXPECT_TRUE(has(svg, "<title>step 2.0: 3.0</title>")) << svg;
  EXPECT_EQ(count_of(svg, "<polyline"), 1U);
  EXPECT_FALSE(has(svg, "style=")) << "the policy of pages forbids it";
}

TEST(LineChartTest, NothingConstantOrInfiniteBreaksIt) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<LinePoint>> cases = {
      {}, {{1, 1}}, {{0, 0}, {1, 0}}, {{0, nan}, {1, infinity}}, {{0, 1e300}, {1, -1e300}}};
  for (const std::vector<LinePoint>& points : cases) {
    const std::string svg = line_chart(chart_of(points));
    EXPECT_EQ(testing_support::unbalanced_tag(svg), "");
    EXPECT_FALSE(has(svg, "nan") || has(svg, "inf")) << svg;
  }
}

TEST(LineChartTest, ManyPointsAreThinnedAndTheLastStays) {
  std::vector<LinePoint> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({static_cast<double>(i), 1});
  const std::string svg = line_chart(chart_of(points));
  EXPECT_LE(count_of(svg, ","), kMostDrawnPoints);
  EXPECT_TRUE(has(svg, "step 9999.0")) << svg;
}

}  // namespace
}  // namespace megacpp::serve
