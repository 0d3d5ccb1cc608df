// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/tokenizer_files.h"

#include <array>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"

namespace megacpp::checkpoint {
namespace {

constexpr std::array kTokenizerFiles = {"tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "added_tokens.json",
                                        "special_tokens_map.json",
                                        "chat_template.jinja",
                                        "generation_config.json"};

}  // namespace

std::vector<std::string> copy_tokenizer_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::vector<std::string> copied;
  for (const char* file : kTokenizerFiles) {
    if (!base::exists(from / file)) continue;
    base::write_file_atomically(to / file, base::read_file(from / file));
    copied.emplace_back(file);
  }
  return copied;
}

}  // namespace megacpp::checkpoint
