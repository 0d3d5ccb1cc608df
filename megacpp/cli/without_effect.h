// SPDX-License-Identifier: Apache-2.0
// Keys that a recipe sets and that change nothing where it runs, as commands say it.
#pragma once

#include <string>
#include <vector>

#include "megacpp/cli/json.h"
#include "megacpp/program/recipe/ignored_keys.h"
#include "megacpp/run/train/unread_keys.h"

namespace megacpp::runtime {
struct Backend;
}

namespace megacpp::cli {

using KeysWithoutEffect = std::vector<recipe::KeyWithoutEffect>;

/// On its own backend, in its layout.
KeysWithoutEffect without_effect(const recipe::Recipe& recipe, recipe::Use use = recipe::Use::run);
/// On the backend of that name, in its layout.
KeysWithoutEffect without_effect_on(const std::string& backend, const recipe::Recipe& recipe, recipe::Use use);

/// Of the keys that --set gives to a command that uses a model and trains nothing.
KeysWithoutEffect without_effect_in(const train::ModelReading& reading, const recipe::Recipe& recipe);

/// For a search of layouts.
KeysWithoutEffect without_effect_in_any_layout(const runtime::Backend& backend, const recipe::Recipe& recipe);

/// "note       layout.prefetch has no effect here: XLA schedules its collectives", a line for each, to stderr.
void print_without_effect(const KeysWithoutEffect& keys);
/// [{"key", "reason"}]
Json to_json(const KeysWithoutEffect& keys);

}  // namespace megacpp::cli
