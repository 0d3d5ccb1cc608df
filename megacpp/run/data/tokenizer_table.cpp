// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fstream>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/run/data/tokenizer_def.h"

namespace megacpp::data {

#define MEGACPP_TOKENIZER(name) TokenizerDef name##_tokenizer();
#include "megacpp/run/data/tokenizer_list.inc"
#undef MEGACPP_TOKENIZER

namespace {

namespace fs = std::filesystem;

/// "bytes, tokenizer.json (...)": what may be given.
std::string kinds_text() {
  std::string text;
  for (const TokenizerDef& kind : all_tokenizers())
    text += (text.empty() ? "" : ", ") + std::string(kind.file_name.empty() ? kind.name : kind.file_name) + " (" +
            std::string(kind.doc) + ")";
  return text;
}

[[noreturn]] void refuse_source(const std::string& source, std::string got) {
  base::raise(base::Code::E1111, {.where = "tokenizer " + source,
                                  .got = std::move(got),
                                  .wanted = "one of: " + kinds_text(),
                                  .next = "give a tokenizer's file or the folder of its model, or train one: megacpp "
                                          "data train-tokenizer"});
}

/// The first bytes of a file; E1008 where it cannot be read.
std::string head_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::array<char, 256> head{};
  if (!stream) return base::read_file(file).substr(0, head.size());  // names the reason
  stream.read(head.data(), head.size());
  return {head.data(), static_cast<size_t>(stream.gcount())};
}

fs::path file_in(const fs::path& folder, const std::string& source) {
  for (const TokenizerDef& kind : all_tokenizers()) {
    std::error_code ignored;
    if (!kind.file_name.empty() && fs::exists(folder / kind.file_name, ignored)) return folder / kind.file_name;
  }
  refuse_source(source, "a folder without a tokenizer's file");
}

}  // namespace

std::span<const TokenizerDef> all_tokenizers() {
  static const std::vector<TokenizerDef> table = {
#define MEGACPP_TOKENIZER(name) name##_tokenizer(),
#include "megacpp/run/data/tokenizer_list.inc"
#undef MEGACPP_TOKENIZER
  };
  return table;
}

std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& source) {
  for (const TokenizerDef& kind : all_tokenizers())
    if (kind.file_name.empty() && kind.name == source) return kind.load({});
  std::error_code ignored;
  const fs::path file = fs::is_directory(source, ignored) ? file_in(source, source) : fs::path(source);
  const std::string head = head_of(file);
  for (const TokenizerDef& kind : all_tokenizers())
    if (kind.recognises != nullptr && kind.recognises(head)) return kind.load(file);
  refuse_source(source, head.empty() ? "an empty file" : "a file of another kind");
}

}  // namespace megacpp::data
