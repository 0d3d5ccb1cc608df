// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/line_chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/report/memory_section.h"
#include "tests/support/text.h"
#include "tests/support/well_formed.h"

namespace megacpp::report {
namespace {

using testing_support::count_of;
using testing_support::has;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string step_text(double value) { return fmt::format("{:g}", value); }

LineChart chart_of(std::vector<Curve> curves) {
  return {.x_title = "step", .y_title = "loss", .x_text = step_text, .y_text = step_text, .curves = std::move(curves)};
}

TEST(LineChartTest, EveryPointHasItsNumbersAndEveryCurveItsName) {
  const std::string svg = lines(chart_of({{.name = "a<b", .points = {{0, 5}, {10, 4}, {20, 2.5}}},
                                          {.name = "other", .colour = Colour::orange, .points = {{0, 6}, {20, 3}}}}));
  EXPECT_EQ(testing_support::unbalanced_tag(svg), "");
  EXPECT_EQ(count_of(svg, "<polyline"), 2U) << svg;
  EXPECT_EQ(count_of(svg, "class=\"hit\""), 5U) << svg;
  for (const char* part : {"a&lt;b: step 20, loss 2.5", "other: step 0, loss 6", "class=\"line l0\"",
                           "class=\"line l1\"", ">step<", ">loss<"})
    EXPECT_TRUE(has(svg, part)) << part << "\n" << svg;
}

TEST(LineChartTest, WhatIsNoNumberIsAGap) {
  const double infinite = std::numeric_limits<double>::infinity();
  const std::string svg = lines(chart_of({{.name = "a",
                                           .points = {{0, 5},
                                                      {1, 4},
                                                      {2, kNone},
                                                      {3, 3},
                                                      {4, infinite},
                                                      {5, 2},
                                                      {6, 1},
                                                      {7, -infinite},
                                                      {8, 1e308},
                                                      {9, -1e308}}}}));
  EXPECT_EQ(count_of(svg, "<polyline"), 2U) << "before the first gap and after the second\n" << svg;
  EXPECT_EQ(count_of(svg, "<circle class=\"s0\""), 1U) << "step 3, alone between two";
  EXPECT_EQ(count_of(svg, "class=\"hit\""), 5U);
  EXPECT_FALSE(has(svg, "nan") || has(svg, "inf")) << svg;
}

TEST(LineChartTest, NothingOnePointAndEqualPointsAreStillPictures) {
  const double next = std::nextafter(2.0, 3.0);  // so close that no round number lies between
  using Points = std::vector<CurvePoint>;
  const std::vector<Points> cases = {Points{},
                                     Points{{3, kNone}},
                                     Points{{0, 2}},
                                     Points{{0, 2}, {1, 2}},
                                     Points{{0, 2}, {1, next}},
                                     Points{{0, 0}, {0, 0}}};
  for (const Points& points : cases) {
    const std::string svg = lines(chart_of({{.name = "a", .points = points}}));
    EXPECT_EQ(testing_support::unbalanced_tag(svg), "");
    EXPECT_FALSE(has(svg, "nan") || has(svg, "inf")) << svg;
  }
  EXPECT_EQ(testing_support::unbalanced_tag(lines(chart_of({}))), "");
}

TEST(LineChartTest, LinesOfBytesAreRoundInTheirUnits) {
  LineChart chart = chart_of({{.name = "a", .points = {{0, 0}, {1, 1.2 * (1 << 30)}}}});
  chart.y_text = bytes_text;
  chart.y_steps = Steps::binary;
  const std::string svg = lines(chart);
  for (const char* line : {">0 B<", ">256.00 MiB<", ">512.00 MiB<", ">768.00 MiB<", ">1.00 GiB<", ">1.25 GiB<"})
    EXPECT_TRUE(has(svg, line)) << line << "\n" << svg;
  EXPECT_EQ(count_of(svg, "iB</text>"), 5U) << svg;
}

TEST(LineChartTest, AMarkStandsOnItsStep) {
  LineChart chart = chart_of({{.name = "a", .points = {{0, 5}, {100, 4}}}});
  chart.marks = {{50, "steady from step"}};
  const std::string svg = lines(chart);
  EXPECT_TRUE(has(svg, "<line class=\"mark\" x1=\"525.0\"")) << svg;  // between 100 and 950 pixels
  EXPECT_TRUE(has(svg, "steady from step 50")) << svg;
}

TEST(LineChartTest, ManyPointsAreThinnedAndNoSpikeIsLost) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 100'000; ++i) points.push_back({static_cast<double>(i), 5 - 1e-5 * i});
  points[41'234].y = 90;
  points[70'001].y = -7;
  points[80'000].y = kNone;
  const std::vector<CurvePoint> kept = thinned(points, 400);
  EXPECT_LE(kept.size(), 400U);
  EXPECT_GT(kept.size(), 200U);
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 99'999);
  double lowest = 0, highest = 0;
  size_t gaps = 0;
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &CurvePoint::x));
  for (const CurvePoint& point : kept) {
    if (!is_drawn(point.y)) {
      ++gaps;
      continue;
    }
    lowest = std::min(lowest, point.y);
    highest = std::max(highest, point.y);
  }
  EXPECT_EQ(highest, 90);
  EXPECT_EQ(lowest, -7);
  EXPECT_EQ(gaps, 1U);
  EXPECT_LT(lines(chart_of({{.name = "a", .points = points}})).size(), 100'000U);
}

TEST(LineChartTest, ShortSeriesAreLeftWhole) {
  const std::vector<CurvePoint> points = {{0, 1}, {1, kNone}, {2, 3}, {3, 4}, {4, 5}};
  EXPECT_EQ(thinned(points, 5).size(), 5U);
  EXPECT_EQ(thinned(std::vector<CurvePoint>(6), 5).size(), 3U) << "the first, one of all between, the last";
}

TEST(LineChartTest, MoreLinesThanAPictureHoldsAreOurMistake) {
  EXPECT_THROW(lines(chart_of(std::vector<Curve>(kMostCurves + 1))), base::Error);
}

}  // namespace
}  // namespace megacpp::report
