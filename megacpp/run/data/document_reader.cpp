// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/document_reader.h"

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/path.h"
#include "megacpp/run/data/text_corpus.h"

namespace megacpp::data {

DocumentReader::DocumentReader(std::span<const std::string> sources, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), files_(list_files(sources)) {
  for (const std::filesystem::path& file : files_) total_bytes_ += base::file_bytes(file);
}

bool DocumentReader::next(std::vector<int32_t>& tokens) {
  while (next_file_ < files_.size()) {
    const base::MappedFile file(files_[next_file_++]);
    if (file.bytes().empty()) continue;
    tokens.clear();
    const std::string text = file.read_unchanged(
        [&] { return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()); });
    tokenizer_.encode(text, tokens);
    bytes_ += std::ssize(file.bytes());
    return true;
  }
  return false;
}

}  // namespace megacpp::data
