// SPDX-License-Identifier: Apache-2.0
// What other trainers call what a recipe has a key for: a reader who comes from one of them is told ours.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace megacpp::recipe {

struct Synonym {
  std::string_view word;  // in lower case, with "_" between its parts
  std::string_view path;  // of our key
};

/// By path.
std::span<const Synonym> synonyms();

/// Our key for the last word of an unknown path; '-' and capitals are as '_' and small letters.
std::optional<std::string_view> key_of_synonym(std::string_view word);

}  // namespace megacpp::recipe
