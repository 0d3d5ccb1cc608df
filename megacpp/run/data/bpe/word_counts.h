// SPDX-License-Identifier: Apache-2.0
// How often each word occurs in files of text: what a BPE is trained from. Memory grows with the number of different
// words, not with the text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace megacpp::data::bpe {

struct CountedWord {
  std::string word;
  int64_t count = 0;
};

struct WordSources {
  std::vector<std::string> sources;  // files, folders or globs; as data.text
  std::string text_field = "text";   // of a line of .jsonl
  int threads = 1;
  /// Called now and then by one thread: bytes read so far, and of all files.
  std::function<void(int64_t bytes, int64_t total)> on_progress = {};
};

/// Words by Llama 3's expression, in the order of their bytes: the same for any number of threads. Bytes that are no
/// UTF-8 are words of their own. E1101 and E1008 as list_files() and for_each_document() have them.
std::vector<CountedWord> count_words(const WordSources& from);

}  // namespace megacpp::data::bpe
