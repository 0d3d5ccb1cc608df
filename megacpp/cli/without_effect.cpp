// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/without_effect.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/print_log.h"
#include "megacpp/plan/unused_layout_keys.h"
#include "megacpp/recipe/unused_model_keys.h"
#include "megacpp/runtime/backend.h"

namespace megacpp::cli {

KeysWithoutEffect without_effect(const recipe::Recipe& recipe, recipe::Use use) {
  return without_effect_on(recipe.backend, recipe, use);
}

KeysWithoutEffect without_effect_on(const std::string& backend, const recipe::Recipe& recipe, recipe::Use use) {
  std::vector<recipe::IgnoredKey> table = runtime::backend_named(backend).ignores;
  for (const auto* more : {&recipe::unused_model_keys(), &plan::unused_layout_keys()})
    table.insert(table.end(), more->begin(), more->end());
  return recipe::ignored_keys(table, recipe, use);
}

KeysWithoutEffect without_effect_in_any_layout(const runtime::Backend& backend, const recipe::Recipe& recipe) {
  std::vector<recipe::IgnoredKey> table = backend.ignores;
  table.insert(table.end(), recipe::unused_model_keys().begin(), recipe::unused_model_keys().end());
  return recipe::ignored_keys(table, recipe, recipe::Use::plan);
}

void print_without_effect(const KeysWithoutEffect& keys) {
  for (const recipe::KeyWithoutEffect& one : keys)
    print_line({.topic = "note",
                .text = fmt::format("{}{}{} has no effect here: {}", one.origin, one.origin.empty() ? "" : " ", one.key,
                                    one.reason)});
}

Json to_json(const KeysWithoutEffect& keys) {
  Json json = Json::array();
  for (const recipe::KeyWithoutEffect& one : keys)
    json.push_back(
        Json{{"key", one.key}, {"origin", one.origin.empty() ? Json() : Json(one.origin)}, {"reason", one.reason}});
  return json;
}

}  // namespace megacpp::cli
