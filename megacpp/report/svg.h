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

/// Series beyond this share the colours of the first ones.
inline constexpr size_t kSeriesColours = 8;

/// A line across a bar: its limit.
struct Mark {
  double value = 0;
  std::string label;
};

struct Bar {
  std::string label;
  std::vector<double> values;  // one for each series, not negative
  std::vector<Mark> marks = {};
};

/// Horizontal bars of stacked parts on one scale.
struct BarChart {
  std::vector<std::string> series;
  std::vector<Bar> bars;
  NumberText text;
};
std::string stacked_bars(const BarChart& chart);

struct Point {
  double x = 0;
  double y = 0;
  std::string label;  // of the tooltip; written beside the point where it is on the frontier
  size_t series = 0;
  bool is_on_frontier = false;  // these are joined by a line, in order of x
};

struct ScatterChart {
  std::string x_title, y_title;
  NumberText x_text, y_text;
  std::vector<std::string> series;  // names for the legend; empty: none
  std::vector<Point> points;
};
std::string scatter(const ScatterChart& chart);

}  // namespace megacpp::report
