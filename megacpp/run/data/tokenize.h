// SPDX-License-Identifier: Apache-2.0
// Text to a dataset: files are split into units, units are encoded by all threads and written in their order, so the
// dataset depends on the text and the tokenizer alone. What is on disk is noted from time to time in PREFIX.tokenize:
// the same call after a crash or a stop goes on from there and ends with the same bytes. A file is one document, but
// for .jsonl files, where every line is one. Empty documents are left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "megacpp/run/data/tokenizer.h"

namespace megacpp::data {

struct TokenizeProgress {
  int64_t text_bytes = 0;     // read so far
  int64_t total_bytes = 0;    // of all files
  int64_t resumed_bytes = 0;  // of `text_bytes`: by an earlier call
  int64_t documents = 0;
  int64_t tokens = 0;
  bool finished = false;
};

struct TokenizeOptions {
  std::vector<std::string> sources;  // files, folders or globs; as data.text
  std::filesystem::path out;         // prefix of the dataset
  std::string text_field = "text";   // of a line of .jsonl
  int threads = 1;
  int64_t unit_bytes = int64_t{4} << 20;   // of a .jsonl file that one thread encodes at a time
  int64_t note_bytes = int64_t{64} << 20;  // of text between two notes of what is on disk
  std::function<void(const TokenizeProgress&)> on_progress = {};
  std::function<bool()> should_stop = {};
};

/// E1007 where tokenize() would replace a dataset, or tokens without an index that it did not leave itself.
void require_new_dataset(const std::filesystem::path& out);

/// Unfinished only where `should_stop` said so. E1101 for sources without files or text, E1008 for a file that cannot
/// be read or that changes, a line that is not JSON or lacks the field, and a document of 2^31 tokens or more. E3001
/// when writing fails and while another call writes the same dataset. What is noted stays for the next call, and
/// nothing else.
TokenizeProgress tokenize(const Tokenizer& tokenizer, const TokenizeOptions& options);

}  // namespace megacpp::data
