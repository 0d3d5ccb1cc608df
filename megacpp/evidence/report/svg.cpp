// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/svg.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/report/svg_shapes.h"

namespace megacpp::report {
namespace {

using namespace shapes;

double sum(const Bar& bar) {
  double total = 0;
  for (const double value : bar.values) total += value;
  return total;
}

std::string bar_label(const BarChart& chart, const Bar& bar) { return bar.label + ": " + chart.text(sum(bar)); }

struct MarkPlace {
  double x, y, bar_height;
};

/// Its words end at the line, or stand behind it where the bar's own words leave no space before it.
std::string draw_mark(const BarChart& chart, const Bar& bar, const Mark& mark, const MarkPlace& place) {
  const std::string label = mark.label + " " + chart.text(mark.value);
  const double own_end = kMargin + text_width(bar_label(chart, bar)) + 14;
  const bool is_before = place.x - 5 - text_width(label) > own_end;
  return draw(Line{place.x, place.y + 14, place.x, place.y + 22 + place.bar_height}, "mark", label) +
         draw({.x = is_before ? place.x - 5 : std::max(place.x + 5, own_end),
               .y = place.y + 12,
               .text = label,
               .anchor = is_before ? Anchor::end : Anchor::start},
              "soft");
}

std::string point_text(const ScatterChart& chart, const Point& point) {
  return fmt::format("{}: {} {}, {} {}", point.label, chart.x_title, chart.x_text(point.x), chart.y_title,
                     chart.y_text(point.y));
}

std::vector<double> numbers_of(const ScatterChart& chart, double Point::*member) {
  std::vector<double> numbers;
  for (const Point& point : chart.points) numbers.push_back(point.*member);
  return numbers;
}

std::vector<Mark> marks_near(const ScatterChart& chart) {
  constexpr double kFar = 4;
  if (chart.points.empty()) return {};
  const double most = std::ranges::max(chart.points, {}, &Point::x).x;
  std::vector<Mark> near;
  for (const Mark& mark : chart.marks)
    if (mark.value <= kFar * most) near.push_back(mark);
  return near;
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/// Labels of points in their order, where the ones before leave space: every tooltip has its own anyway.
std::string labels_beside(const std::vector<Point>& points, const Scale& x, const Scale& y) {
  constexpr double kHeight = 14;
  std::string text;
  std::vector<Box> taken;
  for (const Point& point : points) {
    const double width = text_width(point.label), at = x.pixel(point.x), base = y.pixel(point.y) - 7;
    const bool is_late = at + 10 + width > kWidth;
    const Box box{is_late ? at - 9 - width : at + 9, base - kHeight, width, kHeight};
    if (std::ranges::any_of(taken, [&](const Box& other) { return overlap(box, other); })) continue;
    taken.push_back(box);
    text += draw({.x = is_late ? at - 9 : at + 9,
                  .y = base,
                  .text = point.label,
                  .anchor = is_late ? Anchor::end : Anchor::start});
  }
  return text;
}

std::string frontier(const ScatterChart& chart, const Scale& x, const Scale& y) {
  std::vector<Point> line;
  for (const Point& point : chart.points)
    if (point.is_on_frontier) line.push_back(point);
  std::ranges::stable_sort(line, {}, &Point::x);
  std::string corners;
  for (const Point& point : line)
    corners += fmt::format("{}{:.1f},{:.1f}", corners.empty() ? "" : " ", x.pixel(point.x), y.pixel(point.y));
  const std::string labels = labels_beside(line, x, y);
  return line.size() < 2 ? labels : fmt::format("<polyline class=\"path\" points=\"{}\"/>\n", corners) + labels;
}

}  // namespace

bool is_drawn(double number) {
  constexpr double kLargest = 1e100;
  return std::abs(number) < kLargest;
}

double bar_value(double number) { return number > 0 && is_drawn(number) ? number : 0; }

Colour colour_of(size_t series) { return static_cast<Colour>(series % kSeriesColours); }

std::string stacked_bars(const BarChart& chart) {
  constexpr double kBar = 24, kStep = 50;
  constexpr size_t kMostNamed = 24;  // above the bars: of more, colours are no names, and tooltips have these
  double top = 0;
  std::vector<Series> parts;
  for (const std::string& name : chart.series) parts.push_back({name, colour_of(parts.size())});
  std::string text = legend(parts.size() <= kMostNamed ? parts : std::vector<Series>(), top);
  double most = 0;
  for (const Bar& bar : chart.bars) {
    most = std::max(most, sum(bar));
    for (const Mark& mark : bar.marks) most = std::max(most, mark.value);
  }
  const double scale = most > 0 ? (kWidth - 2 * kMargin) / most : 0;
  for (size_t b = 0; b < chart.bars.size(); ++b) {
    const Bar& bar = chart.bars[b];
    MEGACPP_CHECK(bar.values.size() == chart.series.size())
        << bar.values.size() << " values in " << chart.series.size() << " series";
    const double y = top + kStep * static_cast<double>(b);
    text += draw({.x = kMargin, .y = y + 12, .text = bar_label(chart, bar)});
    double x = kMargin;
    for (size_t s = 0; s < bar.values.size(); ++s) {
      if (bar.values[s] <= 0) continue;
      const double width = scale * bar.values[s];
      text += draw(Box{x, y + 18, width, kBar}, parts[s].colour, parts[s].name + " " + chart.text(bar.values[s]));
      x += width;
    }
    for (const Mark& mark : bar.marks) text += draw_mark(chart, bar, mark, {kMargin + scale * mark.value, y, kBar});
  }
  return opening(top + kStep * static_cast<double>(chart.bars.size())) + text + "</svg>\n";
}

std::string scatter(const ScatterChart& chart) {
  constexpr double kHeight = 380, kLeft = 100, kBottom = 46;
  double top = 0;
  std::string text = legend(chart.series, top);
  const double high = top + 24, low = top + kHeight - kBottom;
  const std::vector<Mark> marks = marks_near(chart);
  std::vector<double> across = numbers_of(chart, &Point::x);
  for (const Mark& mark : marks) across.push_back(mark.value);
  const Scale x(across, kLeft, kWidth - kMargin), y(numbers_of(chart, &Point::y), low, high);
  text += grid({.x_title = chart.x_title,
                .y_title = chart.y_title,
                .x_text = chart.x_text,
                .y_text = chart.y_text,
                .x_steps = chart.x_steps},
               x, y);
  for (const Mark& mark : marks)
    text += vertical_mark(mark.label + " " + chart.x_text(mark.value), x.pixel(mark.value), y);
  text += frontier(chart, x, y);
  for (const Point& point : chart.points) {
    const Colour colour = chart.series.empty() ? Colour::blue : chart.series.at(point.series).colour;
    const double radius = point.is_on_frontier ? 6 : 4;
    text += draw(Dot{x.pixel(point.x), y.pixel(point.y), radius}, fill_class(colour), point_text(chart, point));
  }
  return opening(top + kHeight) + text + "</svg>\n";
}

std::string as_file(const std::string& svg) {
  constexpr std::string_view kOpening = "<svg ";
  MEGACPP_CHECK(svg.starts_with(kOpening)) << "no picture";
  constexpr const char* kColours[kSeriesColours] = {"#3b6fb6", "#d9822b", "#3f9b6c", "#b5475b",
                                                    "#7d62b8", "#8c6d4f", "#c7a008", "#7a8491"};
  std::string style =
      "<style>text { fill: #1c2128; font: 12px sans-serif } .soft { fill: #59636e } .axis { stroke: "
      "#d1d9e0 } .mark { stroke: #1c2128; stroke-dasharray: 4 3 } .path { fill: none; stroke: #59636e } .line { fill: "
      "none; "
      "stroke-width: 1.6 } .hit { fill: transparent }";
  for (size_t i = 0; i < kSeriesColours; ++i)
    style += fmt::format(" .s{0} {{ fill: {1} }} .l{0} {{ stroke: {1} }}", i, kColours[i]);
  const size_t end = svg.find('>') + 1;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + svg.substr(kOpening.size(), end - kOpening.size()) + "\n" +
         style + "</style>" + svg.substr(end);
}

}  // namespace megacpp::report
