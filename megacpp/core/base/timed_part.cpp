// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/timed_part.h"

#include <fmt/format.h>

#include <algorithm>

namespace megacpp::base {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void PartClock::lap(const std::string& name) {
  const Time now = std::chrono::steady_clock::now();
  parts_.push_back({.name = name, .seconds = seconds_between(last_, now)});
  last_ = now;
}

void PartClock::add(const std::vector<TimedPart>& parts) {
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  last_ = std::chrono::steady_clock::now();
}

std::vector<TimedPart> PartClock::all() const {
  std::vector<TimedPart> parts = parts_;
  double rest = seconds_between(start_, std::chrono::steady_clock::now());
  for (const TimedPart& part : parts) rest -= part.seconds;
  parts.push_back({.name = "other", .seconds = std::max(rest, 0.0)});
  return parts;
}

std::string to_text(const std::vector<TimedPart>& parts) {
  if (parts.empty()) return "";
  double total = 0;
  std::string text;
  for (const TimedPart& part : parts) {
    total += part.seconds;
    text += fmt::format("{}{} {:.2f}{}", text.empty() ? "" : ", ", part.name, part.seconds,
                        part.note.empty() ? "" : " (" + part.note + ")");
  }
  return fmt::format("{:.2f} s: {}", total, text);
}

}  // namespace megacpp::base
