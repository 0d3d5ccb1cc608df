// SPDX-License-Identifier: Apache-2.0
#include "megacpp/schema/next_for_kind.h"

#include "megacpp/schema/byte_size.h"

namespace megacpp::schema {

std::string next_for_kind(const KeySpec& key, const std::string& text) {
  const auto size = key.kind == Kind::bytes ? nearest_byte_size(text) : std::nullopt;
  return size ? "did you mean '" + *size + "'?" : meaning_of(key);
}

}  // namespace megacpp::schema
