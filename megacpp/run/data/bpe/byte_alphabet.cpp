// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/byte_alphabet.h"

#include <array>

#include "megacpp/run/data/bpe/utf8_text.h"

namespace megacpp::data::bpe {
namespace {

constexpr uint32_t kFirstReplacement = 0x100;
constexpr uint32_t kReplacements = 68;

constexpr bool is_printable_latin(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

struct Alphabet {
  std::array<std::string, 256> chars;                             // by byte
  std::array<int, kFirstReplacement + kReplacements> bytes = {};  // by code point; -1: stands for no byte

  Alphabet() {
    bytes.fill(-1);
    uint32_t next = kFirstReplacement;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t point = is_printable_latin(byte) ? byte : next++;
      append_utf8(point, chars[byte]);
      bytes[point] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

std::string_view char_of_byte(uint8_t byte) { return alphabet().chars[byte]; }

std::string to_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += char_of_byte(static_cast<uint8_t>(byte));
  return text;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = utf8_char_at(text, at);
    if (next.size == 0 || next.point >= alphabet().bytes.size() || alphabet().bytes[next.point] < 0)
      return std::nullopt;
    bytes.push_back(static_cast<char>(alphabet().bytes[next.point]));
    at += next.size;
  }
  return bytes;
}

}  // namespace megacpp::data::bpe
