// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/report/svg_shapes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "megacpp/evidence/report/html.h"

namespace megacpp::report::shapes {
namespace {

constexpr double kLetter = 6.8, kLegendLine = 22;

/// Round distances for at most about `count` lines of a scale up to `most`.
double round_step(double most, int count, Steps steps) {
  const double raw = most / count;
  if (steps == Steps::binary) return std::exp2(std::ceil(std::log2(raw)));
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) return factor * power;
  return 10 * power;
}

std::vector<double> round_numbers(const Scale& scale, double least_step, Steps steps) {
  constexpr int kAbout = 6, kMost = 50;
  const double step = std::max(round_step(scale.high - scale.low, kAbout, steps), least_step);
  const double first = std::ceil(scale.low / step);
  std::vector<double> numbers;
  for (int i = 0; i < kMost && (first + i) * step <= scale.high; ++i) numbers.push_back((first + i) * step);
  return numbers;
}

}  // namespace

double text_width(const std::string& text) { return kLetter * static_cast<double>(text.size()); }

std::string opening(double height) {
  return fmt::format("<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n",
                     kWidth, height);
}

std::string draw(const Words& words, const char* cls) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", words.x, words.y,
                     kAnchors[static_cast<size_t>(words.anchor)], *cls ? fmt::format(" class=\"{}\"", cls) : "",
                     escape(words.text));
}

std::string draw(const Box& box, Colour colour, const std::string& tooltip) {
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}</title></rect>\n",
      fill_class(colour), box.x, box.y, box.width, box.height, escape(tooltip));
}

std::string draw(const Line& line, const char* cls, const std::string& tooltip) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"><title>{}</title></line>\n", cls,
      line.x1, line.y1, line.x2, line.y2, escape(tooltip));
}

std::string draw(const Dot& dot, const std::string& cls, const std::string& tooltip) {
  return fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>\n", cls,
                     dot.x, dot.y, dot.radius, escape(tooltip));
}

std::string fill_class(Colour colour) { return fmt::format("s{}", static_cast<size_t>(colour)); }

std::string stroke_class(Colour colour) { return fmt::format("line l{}", static_cast<size_t>(colour)); }

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

Scale::Scale(const std::vector<double>& numbers, double at_low, double at_high, double share)
    : pixel_low(at_low), pixel_high(at_high) {
  if (numbers.empty()) return;
  const auto [least, most] = std::ranges::minmax(numbers);
  low = least, high = most;
  // A distance that is lost in the digits of the numbers could not be divided by lines.
  const bool is_wide = high - low > 1e-9 * std::max(std::abs(low), std::abs(high));
  const double margin = is_wide ? share * (high - low) : std::max(std::abs(high) * 0.1, 1e-12);
  low = low >= 0 ? std::max(0.0, low - margin) : low - margin;
  high += margin;
}

std::string grid(const Axes& axes, const Scale& x, const Scale& y) {
  std::string text;
  for (const double at : round_numbers(x, axes.least_step_x, axes.x_steps))
    text += draw(Line{x.pixel(at), y.pixel_low, x.pixel(at), y.pixel_high}, "axis") +
            draw({.x = x.pixel(at), .y = y.pixel_low + 16, .text = axes.x_text(at), .anchor = Anchor::middle}, "soft");
  for (const double at : round_numbers(y, 0, axes.y_steps))
    text += draw(Line{x.pixel_low, y.pixel(at), x.pixel_high, y.pixel(at)}, "axis") +
            draw({.x = x.pixel_low - 6, .y = y.pixel(at) + 4, .text = axes.y_text(at), .anchor = Anchor::end}, "soft");
  text += draw({.x = x.pixel_high, .y = y.pixel_low + 34, .text = axes.x_title, .anchor = Anchor::end});
  text += draw({.x = kMargin, .y = y.pixel_high - 8, .text = axes.y_title});
  return text;
}

std::string vertical_mark(const std::string& label, double at, const Scale& y) {
  const bool is_late = at + 5 + text_width(label) > kWidth;
  return draw(Line{at, y.pixel_high - 18, at, y.pixel_low}, "mark", label) +
         draw({.x = is_late ? at - 5 : at + 5,
               .y = y.pixel_high - 8,
               .text = label,
               .anchor = is_late ? Anchor::end : Anchor::start},
              "soft");
}

}  // namespace megacpp::report::shapes
