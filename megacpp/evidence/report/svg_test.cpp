// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/svg.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
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
  const ScatterChart none{
      .x_title = "x", .y_title = "y", .x_text = plain, .y_text = plain, .points = {}, .marks = {{5, "limit"}}};
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
                                   .series = {{"fits", Colour::blue}, {"does not fit", Colour::red}},
                                   .points = {{.x = 30, .y = 1, .label = "c", .is_on_frontier = true},
                                              {.x = 10, .y = 4, .label = "a", .is_on_frontier = true},
                                              {.x = 20, .y = 5, .label = "b & c", .series = 1}}});
  EXPECT_EQ(testing_support::unbalanced_tag(svg), "");
  EXPECT_EQ(count(svg, "<circle"), 3U);
  EXPECT_EQ(count(svg, "<polyline"), 1U);
  EXPECT_NE(svg.find("b &amp; c: bytes 20, seconds 5"), std::string::npos) << svg;
  EXPECT_EQ(count(svg, "<rect class=\"s3\""), 1U) << svg;  // in the legend
  EXPECT_EQ(count(svg, "<circle class=\"s3\""), 1U) << svg;
  // The frontier starts at the point with the least x, left of the other.
  const size_t at = svg.find("points=\"") + 8;
  EXPECT_LT(std::stod(svg.substr(at)), std::stod(svg.substr(svg.find(' ', at)))) << svg;
}

std::string scatter_with_mark(double value) {
  return scatter({.x_title = "bytes",
                  .y_title = "seconds",
                  .x_text = plain,
                  .y_text = plain,
                  .points = {{.x = 20, .y = 1, .label = "a"}, {.x = 40, .y = 2, .label = "b"}},
                  .marks = {{value, "limit of a chip"}}});
}

double first_number_behind(const std::string& svg, const std::string& part) {
  const size_t at = svg.find(part);
  return at == std::string::npos ? -1 : std::stod(svg.substr(at + part.size()));
}

TEST(SvgTest, AMarkAcrossAScatterIsOnTheScaleOfItsPoints) {
  // The points' own numbers are 0.08 of their distance from the sides: 100 and 950 pixels.
  const std::string between = scatter_with_mark(30);
  EXPECT_EQ(testing_support::unbalanced_tag(between), "");
  EXPECT_EQ(first_number_behind(between, "<line class=\"mark\" x1=\""), 525.0) << between;
  EXPECT_NE(between.find("<title>limit of a chip 30</title>"), std::string::npos) << between;
  EXPECT_NE(between.find("text-anchor=\"start\" class=\"soft\">limit of a chip 30<"), std::string::npos) << between;
  // Beside the points the scale grows up to it, and its words stay inside the picture.
  const std::string behind = scatter_with_mark(160);
  EXPECT_NE(behind.find("text-anchor=\"end\" class=\"soft\">limit of a chip 160<"), std::string::npos) << behind;
  EXPECT_LT(first_number_behind(scatter_with_mark(1), "<line class=\"mark\" x1=\""), 200) << "left of the points";
}

TEST(SvgTest, AMarkFarBeyondThePointsIsLeftOut) {
  const std::string far = scatter_with_mark(161);
  EXPECT_EQ(far.find("limit"), std::string::npos) << far;
  EXPECT_EQ(first_number_behind(far, "cx=\""), first_number_behind(scatter_with_mark(30), "cx=\""));
}

TEST(SvgTest, LabelsOfTheFrontierDoNotCoverEachOther) {
  const std::string svg = scatter({.x_title = "x",
                                   .y_title = "y",
                                   .x_text = plain,
                                   .y_text = plain,
                                   .points = {{.x = 10, .y = 9, .label = "first", .is_on_frontier = true},
                                              {.x = 10.1, .y = 8.9, .label = "second", .is_on_frontier = true},
                                              {.x = 20, .y = 1, .label = "third", .is_on_frontier = true}}});
  for (const char* seen : {">first<", ">third<", "second: x 10.1"})
    EXPECT_NE(svg.find(seen), std::string::npos) << seen << "\n" << svg;
  EXPECT_EQ(svg.find(">second<"), std::string::npos) << svg;
}

TEST(SvgTest, ALabelStandsAboveItsPointOnTheSideWhereThereIsSpace) {
  const std::string svg = scatter({.x_title = "x",
                                   .y_title = "y",
                                   .x_text = plain,
                                   .y_text = plain,
                                   .points = {{.x = 10, .y = 9, .label = "early", .is_on_frontier = true},
                                              {.x = 20, .y = 1, .label = "last of all", .is_on_frontier = true}}});
  size_t at = 0;
  for (const char* label : {">early<", ">last of all<"}) {
    at = svg.find("<circle", at + 1);
    const std::string point = svg.substr(at), text = svg.substr(svg.rfind("<text", svg.find(label)));
    EXPECT_LT(first_number_behind(text, " y=\""), first_number_behind(point, "cy=\"")) << label;
    EXPECT_GT(first_number_behind(text, " y=\""), first_number_behind(point, "cy=\"") - 20) << label;
    const bool is_first = std::string(label) == ">early<";
    EXPECT_EQ(first_number_behind(text, " x=\"") > first_number_behind(point, "cx=\""), is_first) << label;
  }
}

TEST(SvgTest, OnePointAndEqualPointsHaveAScale) {
  const std::string svg = scatter({.x_title = "x",
                                   .y_title = "y",
                                   .x_text = plain,
                                   .y_text = plain,
                                   .points = {{.x = 5, .y = 0, .label = "a"}, {.x = 5, .y = 0, .label = "b"}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
}

TEST(SvgTest, AFileOfItsOwnHasItsColours) {
  const std::string file = as_file(
      stacked_bars({.series = {"a"}, .bars = {{.label = "x", .values = {1}}}, .text = [](double) { return ""; }}));
  EXPECT_EQ(file.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=", 0), 0U) << file;
  EXPECT_NE(file.find(".s0 { fill: #3b6fb6 }"), std::string::npos);
  EXPECT_NE(file.find("</style>"), std::string::npos);
}

}  // namespace
}  // namespace megacpp::report
