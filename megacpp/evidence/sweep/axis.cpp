// SPDX-License-Identifier: Apache-2.0
#include "megacpp/evidence/sweep/axis.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/program/recipe/schema.h"

namespace megacpp::sweep {
namespace {

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0)
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

[[noreturn]] void refuse_axis(std::string_view text, std::string got) {
  base::raise(base::Code::E1007, {.where = "--axis " + std::string(text),
                                  .got = std::move(got),
                                  .wanted = "a recipe key with at least two different values",
                                  .next = "write it as: --axis layout.tensor_parallel=1,2,4"});
}

}  // namespace

Axis parse_axis(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) refuse_axis(text, "no key=values");
  Axis axis{.key = std::string(text.substr(0, equals)), .values = split_values(text.substr(equals + 1))};
  MEGACPP_REQUIRE(recipe::find_key(axis.key) != nullptr, E1001,
                  {.where = "--axis " + std::string(text),
                   .got = "'" + axis.key + "'",
                   .wanted = "a recipe key",
                   .next = recipe::suggest_key(axis.key)});
  if (std::ranges::find(axis.values, "") != axis.values.end()) refuse_axis(text, "an empty value");
  if (axis.values.size() < 2) refuse_axis(text, "one value");
  for (size_t i = 0; i < axis.values.size(); ++i)
    if (std::find(axis.values.begin(), axis.values.begin() + static_cast<std::ptrdiff_t>(i), axis.values[i]) !=
        axis.values.begin() + static_cast<std::ptrdiff_t>(i))
      refuse_axis(text, "'" + axis.values[i] + "' twice");
  return axis;
}

std::string to_text(const Axis& axis) { return fmt::format("{}={}", axis.key, fmt::join(axis.values, ",")); }

std::vector<Trial> interleaved(size_t values, size_t repeats) {
  std::vector<Trial> trials;
  for (size_t repeat = 0; repeat < repeats; ++repeat)
    for (size_t i = 0; i < values; ++i) trials.push_back({.value = (i + repeat) % values, .repeat = repeat});
  return trials;
}

}  // namespace megacpp::sweep
