// SPDX-License-Identifier: Apache-2.0
#include "megacpp/report/svg.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "megacpp/base/error.h"
#include "megacpp/report/html.h"

namespace megacpp::report {
namespace {

constexpr double kWidth = 960, kMargin = 10, kLetter = 6.8, kLegendLine = 22;

double text_width(const std::string& text) { return kLetter * static_cast<double>(text.size()); }

std::string opening(double height) {
  return fmt::format("<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n",
                     kWidth, height);
}

enum class Anchor { start, middle, end };

struct Words {
  double x, y;
  std::string text;
  Anchor anchor = Anchor::start;
};

std::string draw(const Words& words, const char* cls = "") {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", words.x, words.y,
                     kAnchors[static_cast<size_t>(words.anchor)], *cls ? fmt::format(" class=\"{}\"", cls) : "",
                     escape(words.text));
}

struct Box {
  double x, y, width, height;
};

size_t number(Colour colour) { return static_cast<size_t>(colour); }

Colour colour_of(size_t part) { return static_cast<Colour>(part % kSeriesColours); }

std::string draw(const Box& box, Colour colour, const std::string& tooltip) {
  return fmt::format(
      "<rect class=\"s{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}</title></rect>\n",
      number(colour), box.x, box.y, box.width, box.height, escape(tooltip));
}

struct Line {
  double x1, y1, x2, y2;
};

std::string draw(const Line& line, const char* cls, const std::string& tooltip = "") {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"><title>{}</title></line>\n", cls,
      line.x1, line.y1, line.x2, line.y2, escape(tooltip));
}

/// Squares with names from the top left, in as many lines as they need. `height` grows by these.
std::string legend(const std::vector<Series>& all, double& height) {
  std::string text;
  double x = kMargin, y = kMargin;
  for (const Series& series : all) {
    const double width = 22 + text_width(series.name) + 14;
    if (x + width > kWidth && x > kMargin) x = kMargin, y += kLegendLine;
    text += draw(Box{x, y, 14, 14}, series.colour, series.name) + draw({.x = x + 20, .y = y + 12, .text = series.name});
    x += width;
  }
  height = all.empty() ? kMargin : y + kLegendLine + kMargin;
  return text;
}

/// Round distances for at most about `count` lines of a scale up to `most`.
double round_step(double most, int count) {
  const double raw = most / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) return factor * power;
  return 10 * power;
}

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

/// One axis of a scatter from the least to the most of its numbers, with a margin.
struct Scale {
  Scale(const std::vector<double>& numbers, double at_low, double at_high) : pixel_low(at_low), pixel_high(at_high) {
    if (numbers.empty()) return;
    const auto [least, most] = std::ranges::minmax(numbers);
    low = least, high = most;
    const double margin = high > low ? 0.08 * (high - low) : std::max(std::abs(high) * 0.1, 1e-12);
    low = low >= 0 ? std::max(0.0, low - margin) : low - margin;
    high += margin;
  }
  double pixel(double value) const { return pixel_low + (value - low) / (high - low) * (pixel_high - pixel_low); }

  double low = 0, high = 1;
  double pixel_low, pixel_high;
};

std::string point_text(const ScatterChart& chart, const Point& point) {
  return fmt::format("{}: {} {}, {} {}", point.label, chart.x_title, chart.x_text(point.x), chart.y_title,
                     chart.y_text(point.y));
}

std::string grid(const ScatterChart& chart, const Scale& x, const Scale& y) {
  std::string text;
  const double step_x = round_step(x.high - x.low, 6), step_y = round_step(y.high - y.low, 6);
  for (double at = std::ceil(x.low / step_x) * step_x; at <= x.high; at += step_x)
    text += draw(Line{x.pixel(at), y.pixel_low, x.pixel(at), y.pixel_high}, "axis") +
            draw({.x = x.pixel(at), .y = y.pixel_low + 16, .text = chart.x_text(at), .anchor = Anchor::middle}, "soft");
  for (double at = std::ceil(y.low / step_y) * step_y; at <= y.high; at += step_y)
    text += draw(Line{x.pixel_low, y.pixel(at), x.pixel_high, y.pixel(at)}, "axis") +
            draw({.x = x.pixel_low - 6, .y = y.pixel(at) + 4, .text = chart.y_text(at), .anchor = Anchor::end}, "soft");
  text += draw({.x = x.pixel_high, .y = y.pixel_low + 34, .text = chart.x_title, .anchor = Anchor::end});
  text += draw({.x = kMargin, .y = y.pixel_high - 8, .text = chart.y_title});
  return text;
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

/// Its words stand above the points, beside the title of y.
std::string draw_mark(const ScatterChart& chart, const Mark& mark, const Scale& x, const Scale& y) {
  const std::string label = mark.label + " " + chart.x_text(mark.value);
  const double at = x.pixel(mark.value);
  const bool is_late = at + 5 + text_width(label) > kWidth;
  return draw(Line{at, y.pixel_high - 18, at, y.pixel_low}, "mark", label) +
         draw({.x = is_late ? at - 5 : at + 5,
               .y = y.pixel_high - 8,
               .text = label,
               .anchor = is_late ? Anchor::end : Anchor::start},
              "soft");
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

std::string stacked_bars(const BarChart& chart) {
  constexpr double kBar = 24, kStep = 50;
  double top = 0;
  std::vector<Series> parts;
  for (const std::string& name : chart.series) parts.push_back({name, colour_of(parts.size())});
  std::string text = legend(parts, top);
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
  text += grid(chart, x, y);
  for (const Mark& mark : marks) text += draw_mark(chart, mark, x, y);
  text += frontier(chart, x, y);
  for (const Point& point : chart.points) {
    const Colour colour = chart.series.empty() ? Colour::blue : chart.series.at(point.series).colour;
    text += fmt::format("<circle class=\"s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>\n",
                        number(colour), x.pixel(point.x), y.pixel(point.y), point.is_on_frontier ? 6 : 4,
                        escape(point_text(chart, point)));
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
      "#d1d9e0 } .mark { stroke: #1c2128; stroke-dasharray: 4 3 } .path { fill: none; stroke: #59636e }";
  for (size_t i = 0; i < kSeriesColours; ++i) style += fmt::format(" .s{} {{ fill: {} }}", i, kColours[i]);
  const size_t end = svg.find('>') + 1;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + svg.substr(kOpening.size(), end - kOpening.size()) + "\n" +
         style + "</style>" + svg.substr(end);
}

}  // namespace megacpp::report
