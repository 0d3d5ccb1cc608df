// SPDX-License-Identifier: Apache-2.0
// What stays intact in a layout on a backend: which features are on, limited or off, and why. Nothing is listed here:
// rows are keys of the recipe, and what is said of them comes from the tables and gates that ignore and refuse keys.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/decision.h"
#include "megacpp/core/base/record.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/plan/planned_recipe.h"
#include "megacpp/program/recipe/ignored_keys.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::launch {

/// Every line by which a run on that backend ignores a key: its own, the layout's and the model's.
std::vector<recipe::IgnoredKey> ignored_on(const runtime::Backend& backend);

/// Flags of `train` that need to see node after node.
inline constexpr std::array<std::string_view, 3> kNodeFlags = {"--check-nans", "--profile", "--trace"};
/// Whether the backend shows them.
base::Decision shows_nodes(const runtime::Backend& backend);

enum class FeatureState : uint8_t {
  on,
  limited,  // on, and other values of the key are refused here
  off,      // without effect here, refused here, or not asked for
};
constexpr auto words_of(FeatureState /*state*/) {
  return std::to_array<base::Word<FeatureState>>(
      {{FeatureState::on, "on"}, {FeatureState::limited, "limited"}, {FeatureState::off, "off"}});
}

struct Feature {
  std::string key;    // "layout.tensor_parallel", a section ("xla."), or a flag ("train --trace")
  std::string value;  // as the plan has it; empty for sections and flags
  FeatureState state = FeatureState::on;
  std::string why = {};  // empty where it is on
};

template <typename Visit, base::Is<Feature> Self>
void visit_fields(const Visit& visit, Self& feature) {
  visit("feature", feature.key);
  visit("value", feature.value);
  visit("state", feature.state);
  visit("why", feature.why);
}

/// All keys of the layout, those that some backend ignores, and the flags. `plan` was made of `recipe`, which the
/// backend can run.
std::vector<Feature> features_of(const plan::PlannedRecipe& planned, const runtime::Backend& backend);

}  // namespace megacpp::launch
