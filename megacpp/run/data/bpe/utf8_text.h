// SPDX-License-Identifier: Apache-2.0
// UTF-8 inside bytes that need not be any: characters, and runs of valid and of invalid bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace megacpp::data::bpe {

struct Utf8Char {
  uint32_t point = 0;
  size_t size = 0;  // bytes; 0: no valid character begins there
};

/// The character that begins at text[at], with at < text.size(). Overlong forms and surrogates are none.
Utf8Char utf8_char_at(std::string_view text, size_t at);

/// The character at `at` of text that is known to be valid.
inline Utf8Char valid_utf8_char(const char* at) {
  const auto byte = [at](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(at[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}

/// Where the character before `at` begins, in valid text; at > begin.
inline const char* previous_char(const char* at) {
  do --at;
  while ((static_cast<uint8_t>(*at) & 0xc0) == 0x80);
  return at;
}

void append_utf8(uint32_t point, std::string& text);

/// Bytes of text[begin...] up to the first that is part of no valid character.
size_t valid_run(std::string_view text, size_t begin);
/// Bytes of text[begin...] up to the first valid character.
size_t invalid_run(std::string_view text, size_t begin);

}  // namespace megacpp::data::bpe
