// SPDX-License-Identifier: Apache-2.0
// What must hold of a tokenizer.json that is accepted.
#pragma once

#include <string>
#include <string_view>

namespace megacpp::fuzz {

/// Reads `text` as a tokenizer.json, encodes some text with it and decodes that again.
void read_tokenizer_json(std::string_view text);

/// A small one that is sound.
std::string small_tokenizer_json();

}  // namespace megacpp::fuzz
