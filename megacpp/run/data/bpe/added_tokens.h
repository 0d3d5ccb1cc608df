// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in text before it is split into words: end of text, roles of a chat, runs of blanks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::data::bpe {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // only where no letter or digit is beside it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // looked for in normalized text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  /// Calls piece(text) for what is between tokens and token(id) for each one, in order. The leftmost is taken, of those
  /// that begin at the same place the longest.
  template <typename Piece, typename Token>
  void split(std::string_view text, const Piece& piece, const Token& token) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const AddedToken* found = match(text, at);
      if (found == nullptr) return finish(text, done, piece);
      const Found place = placed(text, *found, at, done);
      at += found->content.size();
      if (!place.accepted) continue;
      if (done < place.begin) piece(text.substr(done, place.begin - done));
      token(found->id);
      done = place.end;
      at = done;
    }
    finish(text, done, piece);
  }

 private:
  struct Node {
    int32_t token = -1;                               // index; -1: none ends here
    std::vector<std::pair<char, int32_t>> next = {};  // nodes
  };
  struct Found {
    bool accepted;
    size_t begin;
    size_t end;
  };

  template <typename Piece>
  static void finish(std::string_view text, size_t done, const Piece& piece) {
    if (done < text.size()) piece(text.substr(done));
  }
  /// The next match at or behind `at`, which is moved there; nullptr: none.
  const AddedToken* match(std::string_view text, size_t& at) const;
  Found placed(std::string_view text, const AddedToken& token, size_t at, size_t done) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;        // a trie; the first is the root
  std::vector<bool> begins_ = {};  // by first byte
};

}  // namespace megacpp::data::bpe
