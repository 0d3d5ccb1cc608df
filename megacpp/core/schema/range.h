// SPDX-License-Identifier: Apache-2.0
// What a setting may be: an interval for numbers, a set of words for texts, or one of both for a text that may be a
// number.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "megacpp/core/schema/value.h"

namespace megacpp::schema {

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false;
  bool high_excluded = false;
  bool infinity_allowed = false;
  bool integer_allowed = false;      // beside the choices
  bool empty_allowed = false;        // a text that may be given as ""
  std::vector<std::string> choices;  // empty = any text
};

inline Range any() { return {}; }
inline Range any_or_empty() { return {.empty_allowed = true, .choices = {}}; }
inline Range at_least(double low) { return {.low = low, .choices = {}}; }
inline Range above(double low) { return {.low = low, .low_excluded = true, .choices = {}}; }
inline Range above_or_infinite(double low) {
  return {.low = low, .low_excluded = true, .infinity_allowed = true, .choices = {}};
}
inline Range between(double low, double high) { return {.low = low, .high = high, .choices = {}}; }
inline Range at_least_and_below(double low, double high) {
  return {.low = low, .high = high, .high_excluded = true, .choices = {}};
}
template <typename... Words>
Range one_of(Words... words) {
  return {.choices = {std::string(words)...}};
}
template <typename... Words>
Range one_of_or_integer(double low, double high, Words... words) {
  return {.low = low, .high = high, .integer_allowed = true, .choices = {std::string(words)...}};
}

/// The words of an enum.
template <base::HasWords Enum>
Range words() {
  return {.choices = base::all_words<Enum>()};
}

std::string describe(const Range& range);  // "at least 1", "swiglu or relu2", ""
bool contains(const Range& range, const Member& member);
/// The bound of the range nearest to `wish`, a number outside it, as YAML text; none where that bound is missing or
/// excluded.
std::optional<std::string> nearest_bound(const Range& range, double wish);
/// Of a few words the one that is meant: the nearest of those that `word` has at least half of.
std::optional<std::string> nearest_choice(const std::string& word, const std::vector<std::string>& choices);

}  // namespace megacpp::schema
