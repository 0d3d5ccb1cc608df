// SPDX-License-Identifier: Apache-2.0
#include "megacpp/hardware/fit/shallow_plans.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "megacpp/program/recipe/pattern.h"

namespace megacpp::fit {
namespace {

// Of each part of the pipeline: what is special about its first and last blocks, and about those between which weights
// are gathered ahead or buckets end, is in the shallowest already.
constexpr int64_t kLeastBlocks = 24, kBlocksBetween = 12;

/// The shortest distance at which all letters are equal (Knuth, Morris and Pratt: the longest border).
int64_t letter_period(std::span<const char> letters) {
  std::vector<size_t> border(letters.size() + 1, 0);
  for (size_t i = 1, length = 0; i < letters.size(); border[++i] = length) {
    while (length > 0 && letters[i] != letters[length]) length = border[length];
    if (letters[i] == letters[length]) ++length;
  }
  return static_cast<int64_t>(letters.size() - border.back());
}

/// Without a number a pattern matches the names of either all blocks or none.
bool names_one_block(const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [](const std::string& pattern) {
    return std::ranges::any_of(pattern, [](unsigned char c) { return std::isdigit(c) != 0; });
  });
}

bool are_fewer_blocks(const ShallowDepths& depths) {
  return depths.depths[0] + depths.depths[1] + depths.depths[2] < depths.depth;
}

int64_t rounded_up(int64_t number, int64_t unit) { return (number + unit - 1) / unit * unit; }

/// The model with fewer blocks. Its pattern stays: letters are the first of the whole model's, and what its last period
/// lacks the whole model's lacks too.
recipe::Recipe with_depth(recipe::Recipe recipe, int64_t depth) {
  recipe.model.depth = depth;
  return recipe;
}

std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// As if the deepest shallow plan were the model.
ShallowDepths up_to_last(ShallowDepths depths) {
  depths.depth = depths.depths[2];
  depths.depths = {2 * depths.depths[0] - depths.depths[1], depths.depths[0], depths.depths[1]};
  return depths;
}

}  // namespace

int64_t ShallowDepths::extended(int64_t middle, int64_t last) const {
  // Of numbers that grow by whole periods a distance has as many as this divides.
  const int64_t periods = distance() / (period * parts), further = (depth - depths[2]) / (period * parts);
  const int64_t growth = last - middle;
  if (growth % periods == 0) return last + growth / periods * further;
  return std::llround(extended(static_cast<double>(middle), static_cast<double>(last)));
}

double ShallowDepths::extended(double middle, double last) const {
  return last + (last - middle) * static_cast<double>(depth - depths[2]) / static_cast<double>(distance());
}

bool is_on_line(const ShallowDepths& depths, const std::array<double, 3>& numbers) {
  const double expected = up_to_last(depths).extended(numbers[0], numbers[1]);
  return std::abs(expected - numbers[2]) <= kMostOffLine * std::abs(numbers[2]);
}

bool is_on_line(const ShallowDepths& depths, const std::array<int64_t, 3>& numbers) {
  return is_on_line(depths, std::array<double, 3>{static_cast<double>(numbers[0]), static_cast<double>(numbers[1]),
                                                  static_cast<double>(numbers[2])});
}

std::optional<ShallowDepths> shallow_depths(const plan::Plan& plan, int64_t most_whole) {
  const recipe::Model& model = plan.model;
  if (model.depth <= most_whole || !plan.cuts.empty()) return std::nullopt;
  if (names_one_block(plan.optimizer.no_decay) || (model.lora.is_on() && names_one_block(model.lora.targets)))
    return std::nullopt;
  ShallowDepths found{.depth = model.depth,
                      .period = letter_period(recipe::expand(model).letters),
                      .parts = plan.stages * (plan.stages > 1 ? plan.layout->virtual_stages : 1)};
  const int64_t unit = found.period * found.parts, rest = model.depth % unit;
  const int64_t least = std::max(kLeastBlocks * found.parts, 2 * unit);
  const int64_t distance = rounded_up(kBlocksBetween * found.parts, unit);
  const int64_t first = rounded_up(std::max<int64_t>(0, least - rest), unit) + rest;
  found.depths = {first, first + distance, first + 2 * distance};
  return are_fewer_blocks(found) ? std::optional(found) : std::nullopt;
}

std::optional<ShallowDepths> deeper(const ShallowDepths& depths) {
  ShallowDepths found = depths;
  const int64_t unit = depths.period * depths.parts, rest = depths.depth % unit, distance = 2 * depths.distance();
  const int64_t first = rounded_up(2 * depths.depths[0] - rest, unit) + rest;
  found.depths = {first, first + distance, first + 2 * distance};
  return are_fewer_blocks(found) ? std::optional(found) : std::nullopt;
}

std::string to_text(const ShallowDepths& depths) {
  const auto [first, second, third] = depths.depths;
  const std::string of_parts = depths.parts > 1 ? fmt::format(" in {} parts of the pipeline", depths.parts) : "";
  return fmt::format("{} of {} blocks repeat{}: planned from depths {}, {} and {}", with_commas(depths.depth - first),
                     with_commas(depths.depth), of_parts, first, second, third);
}

ShallowPlans compile_shallow(const recipe::Recipe& recipe, const ShallowDepths& depths, const schedule::Target& target,
                             const std::function<void(std::string_view)>& after_pass) {
  ShallowPlans shallow{.depths = depths, .plans = {}};
  for (const int64_t depth : depths.depths) {
    ShallowPlan one{.planned = plan::PlannedRecipe(with_depth(recipe, depth)), .compiled = {}};
    one.compiled = compile::compile_training(one.planned.plan(), target,
                                             {.verify = compile::Verify::result, .after_pass = after_pass});
    shallow.plans.push_back(std::move(one));
  }
  return shallow;
}

}  // namespace megacpp::fit
