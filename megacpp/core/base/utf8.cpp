// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace megacpp::base {
namespace {

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

/// What a lead byte demands: how many bytes in all, and the range of the second one, which rules out overlong forms,
/// surrogates and code points beyond U+10FFFF.
struct Sequence {
  size_t bytes;
  uint8_t second_least;
  uint8_t second_most;
};

Sequence sequence_of(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead >= 0xc2 && lead <= 0xdf) return {2, 0x80, 0xbf};
  if (lead >= 0xe0 && lead <= 0xef)
    return {3, lead == 0xe0 ? uint8_t{0xa0} : uint8_t{0x80}, lead == 0xed ? uint8_t{0x9f} : uint8_t{0xbf}};
  if (lead >= 0xf0 && lead <= 0xf4)
    return {4, lead == 0xf0 ? uint8_t{0x90} : uint8_t{0x80}, lead == 0xf4 ? uint8_t{0x8f} : uint8_t{0xbf}};
  return {0, 0, 0};
}

/// Bytes of the character that begins at `at`; 0 where no valid one does.
size_t character_bytes(std::string_view text, size_t at) {
  const Sequence sequence = sequence_of(byte_at(text, at));
  if (sequence.bytes == 0 || sequence.bytes > text.size() - at) return 0;
  for (size_t i = 1; i < sequence.bytes; ++i) {
    const uint8_t byte = byte_at(text, at + i);
    const uint8_t least = i == 1 ? sequence.second_least : uint8_t{0x80};
    const uint8_t most = i == 1 ? sequence.second_most : uint8_t{0xbf};
    if (byte < least || byte > most) return 0;
  }
  return sequence.bytes;
}

/// U+0080 to U+009f, of two bytes, are control characters too: a terminal may take U+009b for the beginning of an
/// escape sequence.
bool is_control(std::string_view character) {
  const uint8_t first = byte_at(character, 0);
  return first < 0x20 || first == 0x7f || (first == 0xc2 && byte_at(character, 1) < 0xa0);
}

std::string escaped(std::string_view text, std::string_view kept_controls) {
  std::string safe;
  safe.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = character_bytes(text, at);
    const std::string_view character = text.substr(at, std::max(bytes, size_t{1}));
    const bool is_kept = kept_controls.find(character) != std::string_view::npos;
    if (bytes > 0 && (is_kept || !is_control(character))) {
      safe += character;
    } else {
      for (size_t i = 0; i < character.size(); ++i) {
        char code[5];
        std::snprintf(code, sizeof code, "\\x%02x", byte_at(character, i));
        safe += code;
      }
    }
    at += character.size();
  }
  return safe;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, "\n\t"); }

std::string printable_in_line(std::string_view text) { return escaped(text, ""); }

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = character_bytes(text, at);
    if (bytes == 0) return false;
    at += bytes;
  }
  return true;
}

}  // namespace megacpp::base
