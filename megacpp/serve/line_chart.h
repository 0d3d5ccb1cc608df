// SPDX-License-Identifier: Apache-2.0
// A metric over the steps of a run as a line, as SVG text for pages with the style of assets.h.
#pragma once

#include <string>
#include <vector>

#include "megacpp/report/svg.h"

namespace megacpp::serve {

struct LinePoint {
  double x = 0;
  double y = 0;
};

struct LineChart {
  std::string title;  // for readers that do not see it
  std::string x_title, y_title;
  report::NumberText x_text, y_text;
  std::vector<LinePoint> points;  // in order of x; those that are not finite are left out
};

/// Points that are drawn, at most: of more, as many are left out evenly.
inline constexpr size_t kMostDrawnPoints = 500;

/// Without points: the axes alone.
std::string line_chart(const LineChart& chart);

}  // namespace megacpp::serve
