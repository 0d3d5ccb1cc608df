// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/nfc.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "megacpp/core/base/error.h"

namespace megacpp::data::bpe {
namespace {

/// Characters below U+0300 never change: their UTF-8 begins with a byte below 0xcc.
bool is_plain(std::string_view text) {
  for (const char c : text)
    if (static_cast<uint8_t>(c) >= 0xcc) return false;
  return true;
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& storage) {
  if (is_plain(text)) return text;
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(result, std::free);
  MEGACPP_REQUIRE(size >= 0, E3002,
                  {.where = "normalizing text",
                   .got = utf8proc_errmsg(size),
                   .wanted = std::to_string(text.size()) + " bytes in normal form C",
                   .next = "give the text in smaller documents"});
  storage.assign(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
  return storage;
}

}  // namespace megacpp::data::bpe
