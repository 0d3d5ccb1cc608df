// SPDX-License-Identifier: Apache-2.0
// What the kinds of charts are drawn with: shapes as SVG text, and scales from numbers to pixels. Texts are escaped
// here.
#pragma once

#include <string>
#include <vector>

#include "megacpp/evidence/report/svg.h"

namespace megacpp::report::shapes {

inline constexpr double kWidth = 960, kMargin = 10;  // pixels of every picture, and around it

/// In pixels, about.
double text_width(const std::string& text);

/// The tag that begins a picture.
std::string opening(double height);

enum class Anchor { start, middle, end };

struct Words {
  double x, y;
  std::string text;
  Anchor anchor = Anchor::start;
};
std::string draw(const Words& words, const char* cls = "");

struct Box {
  double x, y, width, height;
};
std::string draw(const Box& box, Colour colour, const std::string& tooltip);

struct Line {
  double x1, y1, x2, y2;
};
std::string draw(const Line& line, const char* cls, const std::string& tooltip = "");

struct Dot {
  double x, y, radius;
};
std::string draw(const Dot& dot, const std::string& cls, const std::string& tooltip);

/// The class of shapes that are filled with the colour.
std::string fill_class(Colour colour);
/// That of paths that are drawn in it.
std::string stroke_class(Colour colour);

/// Squares with names from the top left, in as many lines as they need. `height` is what they take, with a margin.
std::string legend(const std::vector<Series>& all, double& height);

/// Numbers from the least to the most of them, with a margin of `share` of their distance, on pixels.
struct Scale {
  Scale(const std::vector<double>& numbers, double at_low, double at_high, double share = 0.08);
  double pixel(double value) const { return pixel_low + (value - low) / (high - low) * (pixel_high - pixel_low); }

  double low = 0, high = 1;
  double pixel_low, pixel_high;
};

struct Axes {
  std::string x_title, y_title;
  NumberText x_text, y_text;
  double least_step_x = 0;  // between two lines of the grid
  Steps x_steps = Steps::decimal, y_steps = Steps::decimal;
};
/// Round numbers of both scales as lines, with the titles of the axes.
std::string grid(const Axes& axes, const Scale& x, const Scale& y);

/// A line across at the pixel `at`; its words stand above the points, beside the title of y.
std::string vertical_mark(const std::string& label, double at, const Scale& y);

}  // namespace megacpp::report::shapes
