// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/added_tokens.h"

#include <algorithm>

#include "megacpp/run/data/bpe/char_class.h"
#include "megacpp/run/data/bpe/utf8_text.h"

namespace megacpp::data::bpe {
namespace {

/// The valid character that ends at text[end - 1]; size 0: none.
Utf8Char char_before(std::string_view text, size_t end) {
  for (size_t size = 1; size <= 4 && size <= end; ++size) {
    const Utf8Char found = utf8_char_at(text, end - size);
    if (found.size == size) return found;
  }
  return {};
}

bool is_space(const Utf8Char& c) { return c.size > 0 && class_of_point(c.point) == CharClass::space; }
bool is_word(const Utf8Char& c) { return c.size > 0 && is_word_point(c.point); }

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), begins_(256, false) {
  nodes_.emplace_back();
  for (size_t token = 0; token < tokens_.size(); ++token) {
    int32_t node = 0;
    begins_[static_cast<uint8_t>(tokens_[token].content.front())] = true;
    for (const char c : tokens_[token].content) {
      auto& next = nodes_[static_cast<size_t>(node)].next;
      const auto found = std::ranges::find(next, c, &std::pair<char, int32_t>::first);
      if (found != next.end()) {
        node = found->second;
        continue;
      }
      const auto made = static_cast<int32_t>(nodes_.size());
      next.emplace_back(c, made);
      nodes_.emplace_back();
      node = made;
    }
    nodes_[static_cast<size_t>(node)].token = static_cast<int32_t>(token);
  }
}

const AddedToken* AddedTokens::match(std::string_view text, size_t& at) const {
  for (; at < text.size(); ++at) {
    if (!begins_[static_cast<uint8_t>(text[at])]) continue;
    int32_t longest = -1, node = 0;
    for (size_t i = at; i < text.size(); ++i) {
      const auto& next = nodes_[static_cast<size_t>(node)].next;
      const auto found = std::ranges::find(next, text[i], &std::pair<char, int32_t>::first);
      if (found == next.end()) break;
      node = found->second;
      if (nodes_[static_cast<size_t>(node)].token >= 0) longest = nodes_[static_cast<size_t>(node)].token;
    }
    if (longest >= 0) return &tokens_[static_cast<size_t>(longest)];
  }
  return nullptr;
}

AddedTokens::Found AddedTokens::placed(std::string_view text, const AddedToken& token, size_t at, size_t done) const {
  size_t begin = at, end = at + token.content.size();
  if (token.single_word) {
    const bool word_before = begin > 0 && is_word(char_before(text, begin));
    const bool word_behind = end < text.size() && is_word(utf8_char_at(text, end));
    if (word_before || word_behind) return {.accepted = false, .begin = begin, .end = end};
  }
  if (token.lstrip)
    for (Utf8Char before; begin > done && is_space(before = char_before(text, begin));) begin -= before.size;
  if (token.rstrip)
    for (Utf8Char behind; end < text.size() && is_space(behind = utf8_char_at(text, end));) end += behind.size;
  return {.accepted = true, .begin = std::max(begin, done), .end = end};
}

}  // namespace megacpp::data::bpe
