// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the nearest known word to a misspelt one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace megacpp::base {

/// Number of single-character insertions, deletions and substitutions between two words.
size_t edit_distance(std::string_view a, std::string_view b);

/// The known word nearest to `word`, or nothing when none is near enough to be meant.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> known);

/// "did you mean 'x'?" when a known word is near, otherwise `otherwise`: the next step of a Problem.
std::string did_you_mean(std::string_view word, std::span<const std::string> known, std::string_view otherwise);

}  // namespace megacpp::base
