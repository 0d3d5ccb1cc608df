// SPDX-License-Identifier: Apache-2.0
// How text is split before BPE, as a tokenizer.json says it: a sequence of expressions, each of which splits further
// what those before it left.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/json.h"
#include "megacpp/run/data/bpe/regex.h"
#include "megacpp/run/data/bpe/word_pattern.h"

namespace megacpp::data::bpe {

class PreTokenizer {
 public:
  /// From the member `pre_tokenizer`: ByteLevel, Split, Digits, or a Sequence of these that ends with ByteLevel. E1111
  /// where it is broken, E1112 for others, E1113 for expressions that cannot be used. `where` is the file, for
  /// messages.
  static PreTokenizer parse(const base::Json* value, const std::string& where);
  /// One of the well-known expressions.
  explicit PreTokenizer(const WordPattern& pattern) { steps_.push_back({.pattern = &pattern}); }

  /// Calls word(text) for each piece of valid UTF-8, in order.
  template <typename Word>
  void split(std::string_view text, const Word& word) const {
    split_by(0, text, word);
  }

 private:
  friend class PreTokenizerReader;
  struct Step {
    const WordPattern* pattern = nullptr;     // matched by hand; or
    std::unique_ptr<const Regex> regex = {};  // by PCRE2
    bool keeps_gaps = true;                   // text between matches is a piece too, else left out
  };
  PreTokenizer() = default;

  template <typename Word>
  void split_by(size_t index, std::string_view text, const Word& word) const {
    if (index == steps_.size()) return word(text);
    const Step& step = steps_[index];
    if (step.pattern != nullptr) return split_by_hand(index, text, word);
    size_t done = 0;
    step.regex->for_each_match(text, [&](size_t begin, size_t end) {
      if (step.keeps_gaps && done < begin) split_by(index + 1, text.substr(done, begin - done), word);
      split_by(index + 1, text.substr(begin, end - begin), word);
      done = end;
    });
    if (step.keeps_gaps && done < text.size()) split_by(index + 1, text.substr(done), word);
  }

  template <typename Word>
  void split_by_hand(size_t index, std::string_view text, const Word& word) const {
    const auto word_end = steps_[index].pattern->word_end;
    const bool is_last = index + 1 == steps_.size();
    const char* const end = text.data() + text.size();
    for (const char* at = text.data(); at != end;) {
      const char* behind = word_end(at, end);
      const std::string_view piece(at, static_cast<size_t>(behind - at));
      is_last ? word(piece) : split_by(index + 1, piece, word);
      at = behind;
    }
  }

  std::vector<Step> steps_;
};

}  // namespace megacpp::data::bpe
