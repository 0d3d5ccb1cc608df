// SPDX-License-Identifier: Apache-2.0
// Documents of text files as tokens, one after another and once: one document at a time is in memory, so that texts may
// be larger than it. A file is one document; empty ones are left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "megacpp/run/data/tokenizer.h"

namespace megacpp::data {

class DocumentReader {
 public:
  /// Sources as of list_files() (text_corpus.h), with its errors. The tokenizer must outlive the reader.
  DocumentReader(std::span<const std::string> sources, const Tokenizer& tokenizer);

  /// The tokens of the next document in the place of what `tokens` holds; false behind the last one. E1008 for a file
  /// that cannot be read, or changes meanwhile.
  bool next(std::vector<int32_t>& tokens);

  int64_t bytes() const { return bytes_; }              // of the documents so far
  int64_t total_bytes() const { return total_bytes_; }  // of all files, as they were found

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::filesystem::path> files_;
  size_t next_file_ = 0;
  int64_t bytes_ = 0;
  int64_t total_bytes_ = 0;
};

}  // namespace megacpp::data
