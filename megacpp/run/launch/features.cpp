// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/launch/features.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "megacpp/core/base/error.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/program/plan/degrees.h"
#include "megacpp/program/plan/gates.h"
#include "megacpp/program/plan/unused_layout_keys.h"
#include "megacpp/program/recipe/parse.h"
#include "megacpp/program/recipe/schema.h"
#include "megacpp/program/recipe/unused_model_keys.h"

namespace megacpp::launch {
namespace {

bool is_named_by(const recipe::IgnoredKey& line, const std::string& path) {
  return line.key.ends_with('.') ? path.starts_with(line.key) : path == line.key;
}

bool is_feature(const recipe::Key& key) {
  if (key.path.starts_with("layout.")) return true;
  return std::ranges::any_of(runtime::all_backends(), [&](const runtime::Backend& backend) {
    return std::ranges::any_of(backend.ignores,
                               [&](const recipe::IgnoredKey& line) { return is_named_by(line, key.path); });
  });
}

const plan::Degree* degree_named(const std::array<plan::Degree, 5>& degrees, const std::string& path) {
  const auto at = std::ranges::find(degrees, path, &plan::Degree::key);
  return at == degrees.end() ? nullptr : &*at;
}

/// The features of one recipe on one backend.
class FeatureTable {
 public:
  FeatureTable(const plan::PlannedRecipe& planned, const runtime::Backend& backend)
      : recipe_(planned.recipe()), resolved_(planned.resolved()), backend_(backend), ignored_(ignored_on(backend)) {}

  std::vector<Feature> run() {
    for (const recipe::Key& key : recipe::keys())
      if (is_feature(key)) add(key);
    const base::Decision shown = shows_nodes(backend_);
    for (const std::string_view flag : kNodeFlags)
      features_.push_back({.key = fmt::format("train {}", flag),
                           .value = "",
                           .state = shown ? FeatureState::on : FeatureState::off,
                           .why = shown.reason()});
    return std::move(features_);
  }

 private:
  void add(const recipe::Key& key) {
    const recipe::IgnoredKey* const line = recipe::line_ignoring(ignored_, key.path, recipe_, recipe::Use::run);
    if (line != nullptr && line->key.ends_with('.')) return add_section(*line);
    Feature feature{.key = key.path, .value = recipe::value_text(recipe::member_of(key, resolved_))};
    if (line != nullptr) {
      feature.state = FeatureState::off;
      feature.why = line->decides;
    } else {
      judge(key, feature);
    }
    features_.push_back(std::move(feature));
  }

  void add_section(const recipe::IgnoredKey& line) {
    if (std::ranges::find(features_, line.key, &Feature::key) != features_.end()) return;
    features_.push_back({.key = line.key, .value = "", .state = FeatureState::off, .why = line.decides});
  }

  /// Of a key that has an effect: what other values meet here.
  void judge(const recipe::Key& key, Feature& feature) const {
    std::vector<std::string> refused;
    for (const std::string& value : other_values(key, feature.value)) {
      const std::string reason = refusal_of(key.path, value);
      if (!reason.empty()) refused.push_back(fmt::format("not {}: {}", value, reason));
    }
    const std::string reasons = fmt::format("{}", fmt::join(refused, "; "));
    if (is_neutral(key, feature.value)) {
      feature.state = FeatureState::off;
      feature.why = reasons.empty() ? "not asked for" : reasons;
    } else if (!reasons.empty()) {
      feature.state = FeatureState::limited;
      feature.why = reasons;
    }
  }

  /// A degree of one splits nothing; a flag that is not set does nothing, nor does an offload of nothing. A number of 0
  /// mostly stands for a default that is on (train.threads: all cores), but for these two.
  bool is_neutral(const recipe::Key& key, const std::string& value) const {
    if (degree_named(plan::degrees_of(resolved_.layout), key.path) != nullptr) return value == "1";
    if (key.path == "layout.zero" || key.path == "layout.prefetch") return value == "0";
    if (key.path == "layout.offload") return resolved_.layout.offload == recipe::Offload::none;
    return value == "false";
  }

  std::vector<std::string> other_values(const recipe::Key& key, const std::string& value) const {
    const std::array<plan::Degree, 5> degrees = plan::degrees_of(resolved_.layout);
    if (const plan::Degree* const degree = degree_named(degrees, key.path)) return {std::to_string(2 * degree->value)};
    if (value == "true" || value == "false") return {value == "true" ? "false" : "true"};
    std::vector<std::string> others = key.range.choices;
    std::erase(others, value);
    return others;
  }

  /// Why the recipe with that value is refused here; empty where it is not.
  std::string refusal_of(const std::string& key, const std::string& value) const {
    recipe::Recipe changed = recipe_;
    changed.layout.chips = 0;  // as many as the degrees make
    try {
      recipe::apply_overrides(changed, std::vector<std::string>{key + "=" + value});
    } catch (const base::Error& error) {
      return fmt::format("{} wanted {}", base::code_name(error.code()), error.problem().wanted);
    }
    if (backend_.cannot_run)
      if (const std::optional<recipe::Unsupported> unsupported = backend_.cannot_run(changed))
        return fmt::format("backend {}: {}", backend_.name, unsupported->reason);
    const std::optional<plan::Refused> refused = plan::refusal(changed);
    return refused ? fmt::format("{} {}: {}", base::code_name(refused->code), base::code_title(refused->code),
                                 refused->problem.got)
                   : "";
  }

  const recipe::Recipe& recipe_;
  recipe::Recipe resolved_;
  const runtime::Backend& backend_;
  std::vector<recipe::IgnoredKey> ignored_;
  std::vector<Feature> features_;
};

}  // namespace

std::vector<recipe::IgnoredKey> ignored_on(const runtime::Backend& backend) {
  std::vector<recipe::IgnoredKey> table = backend.ignores;
  for (const auto* more : {&recipe::unused_model_keys(), &plan::unused_layout_keys()})
    table.insert(table.end(), more->begin(), more->end());
  return table;
}

base::Decision shows_nodes(const runtime::Backend& backend) {
  if (backend.runs_node_by_node) return base::Decision::yes();
  return base::Decision::no("backend " + backend.name + ", which runs a whole step as one program");
}

std::vector<Feature> features_of(const plan::PlannedRecipe& planned, const runtime::Backend& backend) {
  return FeatureTable(planned, backend).run();
}

}  // namespace megacpp::launch
