// SPDX-License-Identifier: Apache-2.0
// Members of a tokenizer.json, checked for their kind: E1111 with their path where they are missing or of another.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/core/base/json.h"

namespace megacpp::data::bpe {

struct JsonPlace {
  const base::Json& value;
  std::string path;  // "tokenizer.json: model.vocab"

  /// A member that must be there.
  JsonPlace member(std::string_view key) const;
  /// The text of a member that must be there.
  const std::string& text(std::string_view key) const;
  /// A member's flag; `missing` where it is not there or null.
  bool flag(std::string_view key, bool missing) const;
};

[[noreturn]] void refuse_tokenizer(std::string where, std::string got, std::string wanted);
/// E1112; `part` is what was found: "the normalizer Lowercase".
[[noreturn]] void refuse_tokenizer_part(std::string where, std::string part, std::string wanted);

}  // namespace megacpp::data::bpe
