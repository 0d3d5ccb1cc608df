// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/utf8_text.h"

namespace megacpp::data::bpe {
namespace {

/// How long a character with this first byte is; 0: none begins so.
size_t length_by_lead(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

constexpr uint32_t kSmallestPoint[5] = {0, 0, 0x80, 0x800, 0x10000};

}  // namespace

Utf8Char utf8_char_at(std::string_view text, size_t at) {
  const size_t size = length_by_lead(static_cast<uint8_t>(text[at]));
  if (size == 0 || size > text.size() - at) return {};
  for (size_t i = 1; i < size; ++i)
    if ((static_cast<uint8_t>(text[at + i]) & 0xc0) != 0x80) return {};
  const Utf8Char found = valid_utf8_char(text.data() + at);
  const bool is_surrogate = found.point >= 0xd800 && found.point < 0xe000;
  if (found.point < kSmallestPoint[size] || is_surrogate || found.point > 0x10ffff) return {};
  return found;
}

void append_utf8(uint32_t point, std::string& text) {
  const auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | ((point >> shift) & 0x3f))); };
  if (point < 0x80) {
    text.push_back(static_cast<char>(point));
  } else if (point < 0x800) {
    text.push_back(static_cast<char>(0xc0 | point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    text.push_back(static_cast<char>(0xe0 | point >> 12));
    tail(6), tail(0);
  } else {
    text.push_back(static_cast<char>(0xf0 | point >> 18));
    tail(12), tail(6), tail(0);
  }
}

size_t valid_run(std::string_view text, size_t begin) {
  size_t at = begin;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (text.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, text.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const Utf8Char next = utf8_char_at(text, at);
    if (next.size == 0) break;
    at += next.size;
  }
  return at - begin;
}

size_t invalid_run(std::string_view text, size_t begin) {
  size_t at = begin;
  while (at < text.size() && utf8_char_at(text, at).size == 0) ++at;
  return at - begin;
}

}  // namespace megacpp::data::bpe
