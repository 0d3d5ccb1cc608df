// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/schema/range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "megacpp/core/base/suggest.h"
#include "megacpp/core/base/word_list.h"

namespace megacpp::schema {
namespace {

bool inside(const Range& range, double value) {
  const bool low_ok = range.low_excluded ? value > range.low : value >= range.low;
  const bool high_ok = range.high_excluded ? value < range.high : value <= range.high;
  return low_ok && high_ok && (range.infinity_allowed || std::isfinite(value));
}

bool is_integer_inside(const Range& range, const std::string& text) {
  int64_t value = 0;
  return read_scalar(text, &value) && inside(range, static_cast<double>(value));
}

std::string interval_text(const Range& range) {
  std::string text;
  if (std::isfinite(range.low)) text = fmt::format("{} {}", range.low_excluded ? "above" : "at least", range.low);
  if (std::isfinite(range.high)) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " and ", range.high_excluded ? "below" : "at most", range.high);
  }
  return text;
}

}  // namespace

std::string describe(const Range& range) {
  if (range.choices.empty()) return interval_text(range);
  std::vector<std::string> words = range.choices;
  if (range.integer_allowed) words.push_back("an integer " + interval_text(range));
  return base::any_of_words(words);
}

bool contains(const Range& range, const Member& member) {
  if (const auto* integer = std::get_if<int64_t*>(&member)) return inside(range, static_cast<double>(**integer));
  if (const auto* number = std::get_if<double*>(&member)) return inside(range, **number);
  if (const auto* size = std::get_if<ByteSize*>(&member)) return inside(range, static_cast<double>((**size).bytes));
  if (const auto text = plain_text(member); text && !range.choices.empty()) {
    return std::find(range.choices.begin(), range.choices.end(), *text) != range.choices.end() ||
           (range.integer_allowed && is_integer_inside(range, *text));
  }
  return true;
}

std::optional<std::string> nearest_bound(const Range& range, double wish) {
  const bool is_low = wish < range.low || (range.low_excluded && wish == range.low);
  const double bound = is_low ? range.low : range.high;
  const bool is_excluded = is_low ? range.low_excluded : range.high_excluded;
  if (is_excluded || !std::isfinite(bound) || std::isnan(wish)) return std::nullopt;
  return fmt::format("{}", bound);
}

std::optional<std::string> nearest_choice(const std::string& word, const std::vector<std::string>& choices) {
  std::optional<std::string> best;
  for (const std::string& choice : choices) {
    const size_t distance = base::edit_distance(word, choice);
    const bool is_meant = 2 * distance <= std::max(word.size(), choice.size());
    if (is_meant && (!best || distance < base::edit_distance(word, *best))) best = choice;
  }
  return best;
}

}  // namespace megacpp::schema
