// SPDX-License-Identifier: Apache-2.0
// The characters that stand for bytes in the files of byte-level BPE: printable ones of Latin-1 for themselves, U+0100
// onwards for the other 68, so that tokens of any bytes are readable text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace megacpp::data::bpe {

/// The character of a byte, as UTF-8.
std::string_view char_of_byte(uint8_t byte);

/// `bytes`, each as its character.
std::string to_alphabet(std::string_view bytes);

/// The bytes that `text` stands for; nothing where it has a character that stands for no byte.
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace megacpp::data::bpe
