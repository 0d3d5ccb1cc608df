// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "megacpp/run/data/bpe/nfc.h"
#include "megacpp/run/data/bpe/utf8_text.h"
#include "megacpp/run/data/token_range.h"

namespace megacpp::data::bpe {
namespace {

std::vector<AddedToken> tokens_found_in(bool normalized, const BpeModel& model) {
  std::vector<AddedToken> found;
  for (AddedToken token : model.added) {
    if (token.normalized != normalized) continue;
    std::string storage;
    if (normalized && model.nfc) token.content = std::string(to_nfc(token.content, storage));
    found.push_back(std::move(token));
  }
  return found;
}

}  // namespace

class BpeTokenizer::Lease {
 public:
  explicit Lease(const BpeTokenizer& owner) : owner_(owner) {
    {
      const std::lock_guard lock(owner_.mutex_);
      if (!owner_.idle_.empty()) {
        workspace_ = std::move(owner_.idle_.back());
        owner_.idle_.pop_back();
      }
    }
    if (!workspace_) workspace_ = std::make_unique<Workspace>();
  }
  ~Lease() {
    const std::lock_guard lock(owner_.mutex_);
    owner_.idle_.push_back(std::move(workspace_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Workspace& workspace() { return *workspace_; }

 private:
  const BpeTokenizer& owner_;
  std::unique_ptr<Workspace> workspace_;
};

BpeTokenizer::BpeTokenizer(BpeModel model)
    : model_(std::move(model)),
      merges_(model_.byte_tokens, model_.merges),
      in_bytes_(tokens_found_in(false, model_)),
      in_text_(tokens_found_in(true, model_)) {
  if (!model_.ignore_merges) return;
  for (size_t id = 0; id < model_.tokens.size(); ++id) id_of_.emplace(model_.tokens[id], static_cast<int32_t>(id));
}

void BpeTokenizer::encode(std::string_view bytes, std::vector<int32_t>& out) const {
  Lease lease(*this);
  Workspace& workspace = lease.workspace();
  in_bytes_.split(
      bytes, [&](std::string_view piece) { encode_bytes(piece, workspace, out); },
      [&](int32_t id) { out.push_back(id); });
}

void BpeTokenizer::encode_bytes(std::string_view bytes, Workspace& workspace, std::vector<int32_t>& out) const {
  for (size_t at = 0; at < bytes.size();) {
    const size_t valid = valid_run(bytes, at);
    if (valid > 0) encode_text(bytes.substr(at, valid), workspace, out);
    at += valid;
    const size_t invalid = invalid_run(bytes, at);
    if (invalid > 0) encode_word(bytes.substr(at, invalid), workspace, out);
    at += invalid;
  }
}

void BpeTokenizer::encode_text(std::string_view text, Workspace& workspace, std::vector<int32_t>& out) const {
  if (model_.nfc) text = to_nfc(text, workspace.normalized);
  const auto word = [&](std::string_view piece) { encode_word(piece, workspace, out); };
  if (in_text_.empty()) return model_.pre_tokenizer.split(text, word);
  in_text_.split(
      text, [&](std::string_view piece) { model_.pre_tokenizer.split(piece, word); },
      [&](int32_t id) { out.push_back(id); });
}

void BpeTokenizer::encode_word(std::string_view word, Workspace& workspace, std::vector<int32_t>& out) const {
  if (word.size() > WordCache::kLongestWord) return merge_word(word, workspace, out);
  const uint64_t hash = WordCache::hash_of(word);
  if (const WordCache::Entry* known = workspace.cache.find(word, hash)) {
    out.insert(out.end(), known->tokens, known->tokens + known->count);
    return;
  }
  const size_t begin = out.size();
  merge_word(word, workspace, out);
  workspace.cache.add(word, hash, std::span(out).subspan(begin));
}

void BpeTokenizer::merge_word(std::string_view word, Workspace& workspace, std::vector<int32_t>& out) const {
  if (model_.ignore_merges) {
    const auto whole = id_of_.find(word);
    if (whole != id_of_.end()) return out.push_back(whole->second);
  }
  merges_.encode(word, workspace.merging, out);
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += model_.tokens[static_cast<size_t>(checked_token(*this, id))];
  return bytes;
}

}  // namespace megacpp::data::bpe
