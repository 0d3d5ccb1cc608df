// SPDX-License-Identifier: Apache-2.0
// Regular expressions of tokenizer files, compiled by PCRE2. The files are written for Oniguruma with Unicode; where
// the two dialects mean different things by the same text the expression is translated, or refused.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_context_8;

namespace megacpp::data::bpe {

/// The same expression for PCRE2; E1113 where it has no equal there. `where` is its place, for messages.
std::string translate_regex(std::string_view pattern, const std::string& where);

class Regex {
 public:
  /// E1113 for an expression that does not compile or that can match the empty text, which would split nothing off.
  Regex(std::string_view pattern, std::string where);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  /// Calls found(begin, end) for each match in order, none overlapping. `text` is valid UTF-8. E1113 where a match
  /// takes more steps or memory than is allowed.
  template <typename Found>
  void for_each_match(std::string_view text, const Found& found) const {
    const MatchData data = match_data();
    for (size_t at = 0; at < text.size();) {
      const std::optional<Span> span = match(text, at, data);
      if (!span) return;
      found(span->begin, span->end);
      at = span->end;
    }
  }

 private:
  struct Span {
    size_t begin;
    size_t end;
  };
  using MatchData = std::unique_ptr<void, void (*)(void*)>;

  MatchData match_data() const;
  std::optional<Span> match(std::string_view text, size_t begin, const MatchData& data) const;

  std::string where_;
  pcre2_real_code_8* code_ = nullptr;
  pcre2_real_match_context_8* limits_ = nullptr;
};

}  // namespace megacpp::data::bpe
