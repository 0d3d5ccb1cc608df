// SPDX-License-Identifier: Apache-2.0
// What of a recipe a backend cannot run. A backend says so in its record (runtime/backend.h), once: plans, searches and
// runs all refuse by it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

/// A setting that a backend cannot run.
struct Unsupported {
  std::string setting;  // "layout.pipeline_parallel: 2"
  std::string reason;   // whatever the value: "every device runs the same program, no pipeline stages"
  std::string instead;  // what to set: "layout.pipeline_parallel: 1"
};

/// The first such setting; nothing where all of the recipe can run.
using FindUnsupported = std::function<std::optional<Unsupported>(const Recipe&)>;

/// layout.offload, on a backend that gives such a reason for not having it.
std::optional<Unsupported> unsupported_offload(const Recipe& recipe, const std::string& reason);

/// E1505 for a recipe with such a setting. An empty `find` finds none.
void require_supported(const FindUnsupported& find, const std::string& backend, const Recipe& recipe);

}  // namespace megacpp::recipe
