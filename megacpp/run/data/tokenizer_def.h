// SPDX-License-Identifier: Apache-2.0
// What a kind of tokenizer is: one record each, in a file of its own, listed in tokenizer_list.inc.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "megacpp/run/data/tokenizer.h"

namespace megacpp::data {

struct TokenizerDef {
  std::string_view name;       // of the kind
  std::string_view file_name;  // as it is called in a model's folder; empty: the kind has no file
  std::string_view doc;
  /// Whether a file whose first bytes (at most 256) are these is of this kind; null: the kind has no file.
  bool (*recognises)(std::string_view head);
  /// From a file of this kind; a kind without files is loaded by its name and gets an empty path.
  std::unique_ptr<const Tokenizer> (*load)(const std::filesystem::path& file);
};

std::span<const TokenizerDef> all_tokenizers();

}  // namespace megacpp::data
