// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/line_chart.h"

#include <algorithm>

#include <fmt/format.h>

#include "megacpp/core/base/error.h"
#include "megacpp/evidence/report/svg_shapes.h"

namespace megacpp::report {
namespace {

/// Its lowest point, its highest and a gap, in order.
void keep_extremes(std::span<const CurvePoint> part, std::vector<CurvePoint>& kept) {
  const CurvePoint* lowest = nullptr;
  const CurvePoint* highest = nullptr;
  const CurvePoint* gap = nullptr;
  for (const CurvePoint& point : part) {
    if (!is_drawn(point.y)) {
      gap = &point;
      continue;
    }
    if (lowest == nullptr || point.y < lowest->y) lowest = &point;
    if (highest == nullptr || point.y > highest->y) highest = &point;
  }
  for (const CurvePoint& point : part)
    if (&point == lowest || &point == highest || &point == gap) kept.push_back(point);
}

struct Scales {
  shapes::Scale x, y;
};

std::string curve_text(const LineChart& chart, const Curve& curve, const CurvePoint& point) {
  return fmt::format("{}: {} {}, {} {}", curve.name, chart.x_title, chart.x_text(point.x), chart.y_title,
                     chart.y_text(point.y));
}

/// A path between two gaps. One point alone has no length: it is a dot.
std::string path_of(std::span<const CurvePoint> part, Colour colour, const Scales& scales) {
  if (part.empty()) return "";
  if (part.size() == 1)
    return shapes::draw(shapes::Dot{scales.x.pixel(part[0].x), scales.y.pixel(part[0].y), 2.5},
                        shapes::fill_class(colour), "");
  std::string corners;
  for (const CurvePoint& point : part)
    corners +=
        fmt::format("{}{:.1f},{:.1f}", corners.empty() ? "" : " ", scales.x.pixel(point.x), scales.y.pixel(point.y));
  return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", shapes::stroke_class(colour), corners);
}

/// The line, and over it a place for each point that shows its numbers.
std::string draw_curve(const LineChart& chart, const Curve& curve, const Scales& scales) {
  const std::span<const CurvePoint> points = curve.points;
  std::string text, places;
  size_t begin = 0;
  for (size_t i = 0; i <= points.size(); ++i) {
    const bool is_end = i == points.size() || !is_drawn(points[i].y);
    if (is_end) {
      text += path_of(points.subspan(begin, i - begin), curve.colour, scales);
      begin = i + 1;
    } else {
      places += shapes::draw(shapes::Dot{scales.x.pixel(points[i].x), scales.y.pixel(points[i].y), 5}, "hit",
                             curve_text(chart, curve, points[i]));
    }
  }
  return text + places;
}

std::vector<Curve> thinned_curves(const LineChart& chart) {
  constexpr size_t kMostOfOne = 400;
  MEGACPP_CHECK(chart.curves.size() <= kMostCurves) << chart.curves.size() << " lines";
  std::vector<Curve> curves;
  const size_t most = std::min(kMostOfOne, kMostPoints / std::max<size_t>(chart.curves.size(), 1));
  for (const Curve& curve : chart.curves)
    curves.push_back({.name = curve.name, .colour = curve.colour, .points = thinned(curve.points, most)});
  return curves;
}

/// Of all that is drawn; x has a distance of one step at least.
Scales scales_of(const LineChart& chart, const std::vector<Curve>& curves, double high, double low) {
  constexpr double kLeft = 100;
  std::vector<double> across, up;
  for (const Curve& curve : curves)
    for (const CurvePoint& point : curve.points) {
      across.push_back(point.x);
      if (is_drawn(point.y)) up.push_back(point.y);
    }
  for (const Mark& mark : chart.marks) across.push_back(mark.value);
  if (!across.empty()) across.push_back(std::ranges::min(across) + 1);
  const shapes::Scale x(across, kLeft, shapes::kWidth - shapes::kMargin, 0), y(up, low, high);
  return {.x = x, .y = y};
}

}  // namespace

std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, size_t most) {
  MEGACPP_CHECK(most >= 5) << most;
  if (points.size() <= most) return {points.begin(), points.end()};
  const size_t parts = (most - 2) / 3;
  const std::span<const CurvePoint> between = points.subspan(1, points.size() - 2);
  std::vector<CurvePoint> kept = {points.front()};
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = between.size() * part / parts, end = between.size() * (part + 1) / parts;
    keep_extremes(between.subspan(begin, end - begin), kept);
  }
  kept.push_back(points.back());
  return kept;
}

std::string lines(const LineChart& chart) {
  constexpr double kHeight = 300, kBottom = 46;
  const std::vector<Curve> curves = thinned_curves(chart);
  std::vector<Series> names;
  for (const Curve& curve : curves) names.push_back({curve.name, curve.colour});
  double top = 0;
  std::string text = shapes::legend(names, top);
  const Scales scales = scales_of(chart, curves, top + 24, top + kHeight - kBottom);
  const shapes::Axes axes{.x_title = chart.x_title,
                          .y_title = chart.y_title,
                          .x_text = chart.x_text,
                          .y_text = chart.y_text,
                          .least_step_x = 1,
                          .y_steps = chart.y_steps};
  text += shapes::grid(axes, scales.x, scales.y);
  for (const Mark& mark : chart.marks)
    text += shapes::vertical_mark(mark.label + " " + chart.x_text(mark.value), scales.x.pixel(mark.value), scales.y);
  for (const Curve& curve : curves) text += draw_curve(chart, curve, scales);
  return shapes::opening(top + kHeight) + text + "</svg>\n";
}

}  // namespace megacpp::report
