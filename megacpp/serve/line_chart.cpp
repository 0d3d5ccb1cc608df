// SPDX-License-Identifier: Apache-2.0
#include "megacpp/serve/line_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "megacpp/report/html.h"

namespace megacpp::serve {
namespace {

constexpr double kWidth = 960, kHeight = 260, kLeft = 90, kRight = 20, kTop = 24, kBottom = 40;

/// The numbers of one axis and the pixels that they take.
struct Axis {
  double low = 0, high = 1;
  double from = 0, to = 1;

  double pixel(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

Axis axis_of(const std::vector<double>& numbers, double from, double to) {
  Axis axis{.from = from, .to = to};
  if (numbers.empty()) return axis;
  const auto [least, most] = std::ranges::minmax(numbers);
  const double margin = most > least ? 0.05 * (most - least) : std::max(0.05 * std::abs(most), 1e-9);
  axis.low = least - margin;
  axis.high = most + margin;
  return axis;
}

/// Finite ones alone, thinned evenly; the last stays.
std::vector<LinePoint> drawn_points(const std::vector<LinePoint>& all) {
  std::vector<LinePoint> finite;
  for (const LinePoint& point : all)
    if (std::isfinite(point.x) && std::isfinite(point.y)) finite.push_back(point);
  if (finite.size() <= kMostDrawnPoints) return finite;
  std::vector<LinePoint> drawn;
  for (size_t i = 0; i < kMostDrawnPoints; ++i)
    drawn.push_back(finite[i * (finite.size() - 1) / (kMostDrawnPoints - 1)]);
  return drawn;
}

std::string scale_lines(const LineChart& chart, const Axis& x, const Axis& y) {
  constexpr int kLines = 4;
  std::string text;
  for (int i = 0; i <= kLines; ++i) {
    const double part = static_cast<double>(i) / kLines;
    const double value = y.low + part * (y.high - y.low), step = x.low + part * (x.high - x.low);
    text += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\"/>\n"
        "<text class=\"soft\" x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n"
        "<text class=\"soft\" x=\"{6:.1f}\" y=\"{7:.1f}\" text-anchor=\"middle\">{8}</text>\n",
        x.from, y.pixel(value), x.to, x.from - 6, y.pixel(value) + 4, report::escape(chart.y_text(value)),
        x.pixel(step), kHeight - kBottom + 16, report::escape(chart.x_text(step)));
  }
  return text + fmt::format(
                    "<text x=\"{:.1f}\" y=\"14\">{}</text>\n<text x=\"{:.1f}\" y=\"{:.1f}\" "
                    "text-anchor=\"end\">{}</text>\n",
                    kLeft, report::escape(chart.y_title), kWidth - kRight, kHeight - 6, report::escape(chart.x_title));
}

/// The line, and its last point with the number.
std::string line_text(const LineChart& chart, const std::vector<LinePoint>& points, const Axis& x, const Axis& y) {
  if (points.empty()) return "";
  std::string corners;
  for (const LinePoint& point : points)
    corners += fmt::format("{}{:.1f},{:.1f}", corners.empty() ? "" : " ", x.pixel(point.x), y.pixel(point.y));
  const LinePoint& last = points.back();
  return fmt::format(
      "<polyline class=\"line s0\" points=\"{}\"/>\n"
      "<circle class=\"s0\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{} {}: {}</title></circle>\n",
      corners, x.pixel(last.x), y.pixel(last.y), report::escape(chart.x_title), report::escape(chart.x_text(last.x)),
      report::escape(chart.y_text(last.y)));
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  const std::vector<LinePoint> points = drawn_points(chart.points);
  std::vector<double> across, up;
  for (const LinePoint& point : points) {
    across.push_back(point.x);
    up.push_back(point.y);
  }
  const Axis x = axis_of(across, kLeft, kWidth - kRight), y = axis_of(up, kHeight - kBottom, kTop);
  return fmt::format(
             "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" "
             "aria-label=\"{2}\">\n",
             kWidth, kHeight, report::escape(chart.title)) +
         scale_lines(chart, x, y) + line_text(chart, points, x, y) + "</svg>\n";
}

}  // namespace megacpp::serve
