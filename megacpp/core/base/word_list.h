// SPDX-License-Identifier: Apache-2.0
// Words in a sentence.
#pragma once

#include <span>
#include <string>

namespace megacpp::base {

/// "a, b or c"
std::string any_of_words(std::span<const std::string> words);

}  // namespace megacpp::base
