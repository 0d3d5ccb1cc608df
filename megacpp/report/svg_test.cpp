// SPDX-License-Identifier: Apache-2.0
#include "megacpp/report/svg.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "tests/support/well_formed.h"

namespace megacpp::report {
namespace {

std::string plain(double value) { return fmt::format("{:g}", value); }

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(SvgTest, BarsStackTheirPartsUpToTheLimit) {
  const std::string svg = stacked_bars({.series = {"weights", "a<b"},
                                        .bars = {{"chip 0", {30, 10}, {{80, "limit"}}}, {"chip 1", {0, 60}}},
                                        .text = plain});
  EXPECT_EQ(testing_support::unbalanced_tag(svg), "");
  EXPECT_EQ(count(svg, "<rect"), 2 + 3U) << svg;  // legend, and no part of nothing
  // The scale ends at the limit: 940 pixels for 80, so 30 are 352.5 and 10 behind them 117.5.
  for (const char* part : {"width=\"352.5\"", "x=\"362.5\"", "width=\"117.5\"", "weights 30", "a&lt;b 10", "chip 0: 40",
                           "limit 80", "x1=\"950.0\"", "class=\"s1\""})
    EXPECT_NE(svg.find(part), std::string::npos) << part << "\n" << svg;
}

TEST(SvgTest, ALimitFarBelowTheBarIsStillNamedInsideThePicture) {
  const std::string svg = stacked_bars({.series = {"a"}, .bars = {{"chip", {1000}, {{1, "limit"}}}}, .text = plain});
  EXPECT_NE(svg.find("text-anchor=\"start\" class=\"soft\">limit 1<"), std::string::npos) << svg;
}

TEST(SvgTest, NothingToShowIsStillAPicture) {
  EXPECT_EQ(testing_support::unbalanced_tag(stacked_bars({.series = {}, .bars = {}, .text = plain})), "");
  const std::string flat = stacked_bars({.series = {"a"}, .bars = {{"x", {0}}}, .text = plain});
  EXPECT_EQ(flat.find("nan"), std::string::npos);
  const ScatterChart none{.x_title = "x", .y_title = "y", .x_text = plain, .y_text = plain, .series = {}, .points = {}};
  EXPECT_EQ(testing_support::unbalanced_tag(scatter(none)), "");
}

TEST(SvgTest, ABarWithAnotherNumberOfPartsIsOurMistake) {
  EXPECT_THROW(stacked_bars({.series = {"a", "b"}, .bars = {{"x", {1}}}, .text = plain}), base::Error);
}

TEST(SvgTest, AScatterJoinsItsFrontierInOrder) {
  const std::string svg = scatter({.x_title = "bytes",
                                   .y_title = "seconds",
                                   .x_text = plain,
                                   .y_text = plain,
                                   .series = {"fits", "does not fit"},
                                   .points = {{.x = 30, .y = 1, .label = "c", .is_on_frontier = true},
                                              {.x = 10, .y = 4, .label = "a", .is_on_frontier = true},
                                              {.x = 20, .y = 5, .label = "b & c", .series = 1}}});
  EXPECT_EQ(testing_support::unbalanced_tag(svg), "");
  EXPECT_EQ(count(svg, "<circle"), 3U);
  EXPECT_EQ(count(svg, "<polyline"), 1U);
  EXPECT_NE(svg.find("b &amp; c: bytes 20, seconds 5"), std::string::npos) << svg;
  // The frontier starts at the point with the least x, left of the other.
  const size_t at = svg.find("points=\"") + 8;
  EXPECT_LT(std::stod(svg.substr(at)), std::stod(svg.substr(svg.find(' ', at)))) << svg;
}

TEST(SvgTest, OnePointAndEqualPointsHaveAScale) {
  const std::string svg = scatter({.x_title = "x",
                                   .y_title = "y",
                                   .x_text = plain,
                                   .y_text = plain,
                                   .series = {},
                                   .points = {{.x = 5, .y = 0, .label = "a"}, {.x = 5, .y = 0, .label = "b"}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
}

}  // namespace
}  // namespace megacpp::report
