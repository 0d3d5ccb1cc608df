// SPDX-License-Identifier: Apache-2.0
// Numbers by step as SVG text, for pages of html.h: a line for each run or block. However many numbers there are, a
// picture has kMostPoints or so: of neighbours the lowest and the highest are kept, so that no spike is lost. A number
// that is none (NaN, infinite) is a gap.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "megacpp/evidence/report/svg.h"

namespace megacpp::report {

/// Of all lines of one picture together.
inline constexpr size_t kMostPoints = 1600;
/// Lines of one picture.
inline constexpr size_t kMostCurves = 24;

struct CurvePoint {
  double x = 0;  // a step
  double y = 0;
};

struct Curve {
  std::string name;
  Colour colour = Colour::blue;
  std::vector<CurvePoint> points;  // by x
};

struct LineChart {
  std::string x_title, y_title;
  NumberText x_text, y_text;
  Steps y_steps = Steps::decimal;
  std::vector<Curve> curves;     // kMostCurves at most
  std::vector<Mark> marks = {};  // on x
};
std::string lines(const LineChart& chart);

/// At most `most` of the points, which is 5 at least: the first, the last, and of the parts between these the lowest,
/// the highest and a gap, if there is one.
std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, size_t most);

}  // namespace megacpp::report
