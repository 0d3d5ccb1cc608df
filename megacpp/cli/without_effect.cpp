// SPDX-License-Identifier: Apache-2.0
#include "megacpp/cli/without_effect.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "megacpp/cli/print_log.h"
#include "megacpp/machine/backends/backend_table.h"
#include "megacpp/machine/runtime/backend.h"
#include "megacpp/program/recipe/unused_model_keys.h"
#include "megacpp/run/launch/features.h"

namespace megacpp::cli {
namespace {

using Table = std::vector<recipe::IgnoredKey>;

void add(Table& table, const Table& more) { table.insert(table.end(), more.begin(), more.end()); }

}  // namespace

KeysWithoutEffect without_effect(const recipe::Recipe& recipe, recipe::Use use) {
  return without_effect_on(recipe.backend, recipe, use);
}

KeysWithoutEffect without_effect_on(const std::string& backend, const recipe::Recipe& recipe, recipe::Use use) {
  return recipe::ignored_keys(launch::ignored_on(runtime::backend_named(backend)), recipe, use);
}

KeysWithoutEffect without_effect_in(const train::ModelReading& reading, const recipe::Recipe& recipe) {
  Table table = train::unread_keys(reading);
  add(table, reading.use == train::ModelUse::evaluation ? launch::ignored_on(runtime::backend_named(recipe.backend))
                                                        : recipe::unused_model_keys());
  return recipe::ignored_overrides(table, recipe);
}

KeysWithoutEffect without_effect_in_any_layout(const runtime::Backend& backend, const recipe::Recipe& recipe) {
  Table table = backend.ignores;
  add(table, recipe::unused_model_keys());
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
