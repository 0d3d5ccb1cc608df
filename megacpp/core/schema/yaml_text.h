// SPDX-License-Identifier: Apache-2.0
// The one way in for YAML: recipes and chip files.
#pragma once

#include <string>

#include <yaml-cpp/yaml.h>

#include "megacpp/core/base/error.h"

namespace megacpp::schema {

/// The one document of a text, an empty node for an empty text. Raises `code` at "file:line" for what is no YAML, has a
/// second document, is nested too deeply, or holds bytes that are no UTF-8 or control characters: some of these the
/// library would take for the end of the text.
YAML::Node load_yaml(const std::string& text, base::Code code, const std::string& file);

}  // namespace megacpp::schema
