// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "megacpp/core/base/error.h"

namespace megacpp::data::bpe {
namespace {

constexpr uint32_t kMostSteps = 1'000'000;   // of one match
constexpr uint32_t kMostHeapKb = 64 * 1024;  // of one match
constexpr size_t kLongestPattern = 16 * 1024;

/// Characters that Oniguruma and PCRE2 count differently, or call by other names. \s: PCRE2 adds U+180E; \w: it leaves
/// out marks, connectors and circled letters; \h is a hexadecimal digit there and a blank here.
struct Shorthand {
  char name;
  std::string_view members;  // inside of brackets
};
constexpr Shorthand kShorthands[] = {
    {'s', R"(\t-\r\x{85}\p{Z})"},
    {'w', R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})"},
    {'h', "0-9a-fA-F"},
};

[[noreturn]] void refuse_regex(const std::string& where, std::string got, std::string wanted) {
  base::raise(base::Code::E1113, {.where = where,
                                  .got = std::move(got),
                                  .wanted = std::move(wanted),
                                  .next = "mend the expression, or take a tokenizer with another one"});
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string translate() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_++];
      if (c == '\\' && at_ < pattern_.size()) {
        escape(pattern_[at_++]);
      } else if (in_class_) {
        class_char(c);
      } else {
        out_ += c;
        if (c == '[') open_class();
      }
    }
    return std::move(out_);
  }

 private:
  void escape(char name) {
    for (const Shorthand& shorthand : kShorthands) {
      const bool negated = name == shorthand.name - 'a' + 'A';
      if (name != shorthand.name && !negated) continue;
      if (in_class_ && negated) break;
      if (in_class_) out_ += shorthand.members;
      if (!in_class_) out_ += (negated ? "[^" : "[") + std::string(shorthand.members) + "]";
      return;
    }
    if (name == 'u') return code_point();
    out_ += '\\';
    out_ += name;
  }

  /// \u4e00, which PCRE2 writes \x{4e00}
  void code_point() {
    const std::string_view digits = pattern_.substr(at_, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      refuse_regex(where_, "\\u" + std::string(digits), "\\u and four hexadecimal digits");
    out_ += "\\x{" + std::string(digits) + "}";
    at_ += 4;
  }

  void open_class() {
    in_class_ = true;
    if (at_ < pattern_.size() && pattern_[at_] == '^') out_ += pattern_[at_++];
    if (at_ < pattern_.size() && pattern_[at_] == ']') out_ += pattern_[at_++];  // a member
  }

  void class_char(char c) {
    const char next = at_ < pattern_.size() ? pattern_[at_] : '\0';
    if (c == '[' && next == ':') {
      const size_t end = pattern_.find(":]", at_);
      if (end == std::string_view::npos) refuse_regex(where_, "[: without :]", "a regular expression");
      out_ += pattern_.substr(at_ - 1, end + 2 - (at_ - 1));
      at_ = end + 2;
      return;
    }
    if (c == '[' || (c == '&' && next == '&'))
      refuse_regex(where_, "a set within a set, or an intersection of sets", "sets of plain members");
    out_ += c;
    in_class_ = c != ']';
  }

  std::string_view pattern_;
  const std::string& where_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

std::string translate_regex(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).translate();
}

Regex::Regex(std::string_view pattern, std::string where) : where_(std::move(where)) {
  if (pattern.size() > kLongestPattern)
    refuse_regex(where_, std::to_string(pattern.size()) + " bytes",
                 "an expression of at most " + std::to_string(kLongestPattern));
  const std::string translated = translate_regex(pattern, where_);
  int error = 0;
  size_t offset = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), options, &error, &offset,
                        nullptr);
  if (code_ == nullptr)
    refuse_regex(where_, message_of(error) + " at byte " + std::to_string(offset) + " of " + translated,
                 "a regular expression that compiles");
  uint32_t matches_empty = 0;
  pcre2_pattern_info(code_, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) {
    pcre2_code_free(code_);
    refuse_regex(where_, "'" + std::string(pattern) + "', which may match the empty text",
                 "an expression that takes at least a character");
  }
  pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // where there is no JIT, matches are interpreted
  limits_ = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(limits_, kMostSteps);
  pcre2_set_heap_limit(limits_, kMostHeapKb);
}

Regex::~Regex() {
  pcre2_match_context_free(limits_);
  pcre2_code_free(code_);
}

Regex::MatchData Regex::match_data() const {
  return {pcre2_match_data_create_from_pattern(code_, nullptr),
          [](void* data) { pcre2_match_data_free(static_cast<pcre2_match_data*>(data)); }};
}

std::optional<Regex::Span> Regex::match(std::string_view text, size_t begin, const MatchData& data) const {
  auto* match = static_cast<pcre2_match_data*>(data.get());
  const auto run = [&](uint32_t options) {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                       PCRE2_NO_UTF_CHECK | options, match, limits_);
  };
  int result = run(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    refuse_regex(where_, message_of(result) + " at byte " + std::to_string(begin) + " of the text",
                 "matches of at most " + std::to_string(kMostSteps) + " steps");
  const size_t* ends = pcre2_get_ovector_pointer(match);
  // \K and look-behind may report a match that ends where it began, or before.
  if (ends[1] <= ends[0] || ends[0] < begin)
    refuse_regex(where_, "an empty match at byte " + std::to_string(begin) + " of the text", "matches of some text");
  return Span{ends[0], ends[1]};
}

}  // namespace megacpp::data::bpe
