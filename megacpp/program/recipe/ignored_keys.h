// SPDX-License-Identifier: Apache-2.0
// Keys that change nothing where a recipe runs, each with what decides instead. Who ignores keys says so in a table:
// layouts in plan/unused_layout_keys.h, backends in their records (runtime/backend.h), what uses a model without
// training it in train/unread_keys.h. Commands print what is found.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

/// What a recipe is read for. A plan is for hardware that need not be here.
enum class Use { plan, run };

/// One line of such a table.
struct IgnoredKey {
  std::string key;                                  // a path, or a section with its dot: "xla."
  std::string decides;                              // what decides instead, or why nothing is to be decided
  std::function<bool(const Recipe&)> applies = {};  // empty: to every recipe
  bool plans_read_it = false;                       // ignored by runs only
};

struct KeyWithoutEffect {
  std::string key, reason;
  std::string origin = {};  // "nam52.yaml:12", "--set"; empty: neither gave it

  bool operator==(const KeyWithoutEffect&) const = default;
};

/// The line by which a key of the recipe is ignored, whatever its value; nullptr: it has an effect.
const IgnoredKey* line_ignoring(const std::vector<IgnoredKey>& table, const std::string& key, const Recipe& recipe,
                                Use use);

/// Keys of the recipe that `table` has and that are not at their defaults, in the order of keys(), each once.
std::vector<KeyWithoutEffect> ignored_keys(const std::vector<IgnoredKey>& table, const Recipe& recipe, Use use);

/// Keys that --set gives and `table` has, whatever their values, by name. For commands that use a model and read a part
/// of its recipe: all that its file gives besides is not what the user requested now.
std::vector<KeyWithoutEffect> ignored_overrides(const std::vector<IgnoredKey>& table, const Recipe& recipe);

}  // namespace megacpp::recipe
