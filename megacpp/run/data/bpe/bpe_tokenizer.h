// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE: added tokens are taken out of the text, the rest is normalized and split into words, and the bytes of
// each word are merged. Bytes that are no UTF-8 stand between words and are merged like one, so any bytes come back
// from their tokens; normalization and tokens that take white space along are the exceptions, by their meaning.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "megacpp/run/data/bpe/added_tokens.h"
#include "megacpp/run/data/bpe/merges.h"
#include "megacpp/run/data/bpe/pre_tokenizer.h"
#include "megacpp/run/data/bpe/word_cache.h"
#include "megacpp/run/data/tokenizer.h"

namespace megacpp::data::bpe {

/// All that decides ids; consistent, as read_bpe (tokenizer_json.h) leaves it.
struct BpeModel {
  std::string name;
  std::vector<std::string> tokens;  // bytes by id
  std::vector<Merge> merges;        // by rank
  std::array<int32_t, 256> byte_tokens{};
  std::vector<AddedToken> added;
  PreTokenizer pre_tokenizer{gpt2_words()};
  bool nfc = false;            // text is brought into normal form C first
  bool ignore_merges = false;  // a word that is a token is that token, whatever merges say
  std::optional<int32_t> end_of_document;
  uint64_t fingerprint = 0;
};

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeModel model);

  void encode(std::string_view bytes, std::vector<int32_t>& out) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(model_.tokens.size()); }
  std::optional<int32_t> end_of_document() const override { return model_.end_of_document; }
  const std::string& name() const override { return model_.name; }
  uint64_t fingerprint() const override { return model_.fingerprint; }

 private:
  /// What one call of encode() works with; kept for the next one, so that words stay known.
  struct Workspace {
    WordCache cache;
    MergeWorkspace merging;
    std::string normalized;
  };
  class Lease;

  void encode_bytes(std::string_view bytes, Workspace& workspace, std::vector<int32_t>& out) const;
  void encode_text(std::string_view text, Workspace& workspace, std::vector<int32_t>& out) const;
  void encode_word(std::string_view word, Workspace& workspace, std::vector<int32_t>& out) const;
  void merge_word(std::string_view word, Workspace& workspace, std::vector<int32_t>& out) const;

  BpeModel model_;
  Merges merges_;
  AddedTokens in_bytes_;                                  // looked for before normalization
  AddedTokens in_text_;                                   // and behind it
  std::unordered_map<std::string_view, int32_t> id_of_;   // of tokens; only where merges are ignored
  mutable std::mutex mutex_;                              // guards idle_
  mutable std::vector<std::unique_ptr<Workspace>> idle_;  // as many as threads encoded at once
};

}  // namespace megacpp::data::bpe
