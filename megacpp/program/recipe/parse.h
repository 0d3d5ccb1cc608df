// SPDX-License-Identifier: Apache-2.0
// YAML text to a validated Recipe. Unknown keys are refused with the nearest name (E1001), values of another kind with
// file and line (E1002), text that is no YAML mapping with its line (E1004); then the gates of validate.h apply.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "megacpp/program/recipe/given_model.h"
#include "megacpp/program/recipe/print.h"
#include "megacpp/program/recipe/recipe.h"

namespace megacpp::recipe {

/// `file` names the text in errors. `overrides` are "key=value" as given to --set, applied in order after the text.
Recipe parse(std::string_view yaml, const std::string& file, std::span<const std::string> overrides = {});

/// Applies "key=value" overrides to a recipe whose other values come from elsewhere than a text. Kinds and ranges of
/// the keys given are checked (E1001, E1002, E1003, E1007), how values fit together is not.
void apply_overrides(Recipe& recipe, std::span<const std::string> overrides);

/// parse() of a file's content; E3001 when it cannot be read. A recipe without a name is called after its file.
Recipe load(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// The same where the model comes from elsewhere: keys of the model that the text leaves out are those of `given`, and
/// E1205 as require_given_model() for those that differ.
Recipe load_around(const GivenModel& given, const std::filesystem::path& path,
                   std::span<const std::string> overrides = {});
/// The same of a text; a recipe without a name has that of the model.
Recipe parse_around(const GivenModel& given, std::string_view yaml, const std::string& file,
                    std::span<const std::string> overrides = {});

/// A model from its keys alone, as settings_of() gives them: {"model.hidden", "16"}. Keys, kinds and letters are
/// checked; whether the values fit together is known with a recipe around it.
Model parse_model(std::span<const Setting> settings, const std::string& file);

}  // namespace megacpp::recipe
