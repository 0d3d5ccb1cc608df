// SPDX-License-Identifier: Apache-2.0
// What to do about a layout that a gate refuses. A gate names ways out, nearest first, and knows its own demand only;
// here every way is applied to a copy of the recipe and tried at all gates before it is offered. Where no way of one
// gate suffices, those of the gates that refuse next are taken too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/error.h"
#include "megacpp/program/plan/plan.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::plan {

struct Change {
  std::string key;    // "layout.tensor_parallel"
  std::string value;  // as --set takes it
  bool operator==(const Change&) const = default;
};
/// Made together.
using Changes = std::vector<Change>;
/// The earlier changes with the later ones; a key that stands in both takes the later value.
Changes merged(Changes earlier, const Changes& later);
/// As --set takes them: "train.batch=4".
std::vector<std::string> overrides_of(const Changes& changes);
/// Ways out of one kind, nearest first: the first that is legal is offered.
using Choice = std::vector<Changes>;

/// What is wrong, without a next step; none: the recipe passes.
using Refusal = std::optional<base::Problem>;

struct Gate {
  base::Code code;
  Refusal (*refuses)(const recipe::Recipe& recipe);
  /// Of a recipe that it refuses. They meet this gate's demand, not yet that of others.
  std::vector<Choice> (*ways_out)(const recipe::Recipe& recipe);
};

/// One way that sets one key.
Choice to_value(std::string_view key, std::string_view value);
Choice to_value(std::string_view key, int64_t value);
/// Two choices: values below `wish` and values above it up to `highest`, nearest first, as far as they fit.
std::vector<Choice> near(std::string_view key, int64_t wish, int64_t highest, const std::function<bool(int64_t)>& fits);

/// The first that refuses the recipe as given; nullptr: it is legal.
const Gate* refusing(std::span<const Gate> gates, const recipe::Recipe& recipe);

/// "set layout.tensor_parallel: 2 or 4, or layout.chips: 8": legal all of them. Where nothing legal is near, the keys
/// that must change without a value.
std::string next_step(std::span<const Gate> gates, const recipe::Recipe& refused, Adjustable adjustable);

}  // namespace megacpp::plan
