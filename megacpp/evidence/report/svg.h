// SPDX-License-Identifier: Apache-2.0
// Pictures as SVG text, to stand inside a page of html.h, which gives the series their colours. Every shape carries its
// number as a tooltip, so no picture is the only place of what it shows.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace megacpp::report {

/// A number as people read it: "1.50 GiB", "12 ms".
using NumberText = std::function<std::string(double)>;

/// How far lines of a grid are from each other: 1, 2 or 5 times a power of ten, or a power of two, which is round in
/// the units of bytes.
enum class Steps { decimal, binary };

/// Whether it can be drawn: a number, and none so large that a scale would overflow.
bool is_drawn(double number);
/// The number as a part of a bar: 0 for what is negative or cannot be drawn.
double bar_value(double number);

/// What a page has for series, in the order in which the parts of bars take them; parts beyond share the first ones.
enum class Colour : size_t { blue, orange, green, red, violet, brown, yellow, grey };
inline constexpr size_t kSeriesColours = 8;
Colour colour_of(size_t series);

/// A line across a bar or a scatter: its limit.
struct Mark {
  double value = 0;
  std::string label;
};

struct Bar {
  std::string label;
  std::vector<double> values;  // one for each series, not negative
  std::vector<Mark> marks = {};
};

/// Horizontal bars of stacked parts on one scale. Up to 24 series are named above them.
struct BarChart {
  std::vector<std::string> series;
  std::vector<Bar> bars;
  NumberText text;
};
std::string stacked_bars(const BarChart& chart);

struct Point {
  double x = 0;
  double y = 0;
  std::string label;            // of the tooltip; written beside a point of the frontier where there is space
  size_t series = 0;            // of the chart; without any: blue
  bool is_on_frontier = false;  // these are joined by a line, in order of x
};

struct Series {
  std::string name;
  Colour colour = Colour::blue;
};

struct ScatterChart {
  std::string x_title, y_title;
  NumberText x_text, y_text;
  Steps x_steps = Steps::decimal;
  std::vector<Series> series = {};  // for the legend; empty: none
  std::vector<Point> points;
  // On x. One beyond four times the most of the points is left out: it would press them together.
  std::vector<Mark> marks = {};
};
std::string scatter(const ScatterChart& chart);

/// A picture as a file of its own, with the colours that a page would give it.
std::string as_file(const std::string& svg);

}  // namespace megacpp::report
