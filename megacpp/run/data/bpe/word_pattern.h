// SPDX-License-Identifier: Apache-2.0
// The expressions by which most published byte-level tokenizers split text into words, matched by hand: several times
// as fast as by PCRE2, and equal to it on any text (word_pattern_test).
#pragma once

#include <span>
#include <string_view>

namespace megacpp::data::bpe {

struct WordPattern {
  std::string_view name;
  std::string_view regex;
  /// Where the word that begins at `at` ends; at < end, valid UTF-8. Words leave no gaps.
  const char* (*word_end)(const char* at, const char* end);
};

/// GPT-2's, which the pre-tokenizer ByteLevel brings along; also those of Llama 3 and Qwen 2.
std::span<const WordPattern> all_word_patterns();
const WordPattern& gpt2_words();
const WordPattern& llama3_words();

/// The one with exactly this expression, or nullptr.
const WordPattern* word_pattern_of(std::string_view regex);

}  // namespace megacpp::data::bpe
