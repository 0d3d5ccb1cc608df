// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/train/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "megacpp/core/base/error.h"

namespace megacpp::train {
namespace {

void check_prompts(const GenerateRequest& request, int64_t vocab) {
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::vector<int32_t>& prompt = request.prompts[i];
    MEGACPP_REQUIRE(!prompt.empty(), E1102,
                    {.where = fmt::format("prompt {}", i),
                     .got = "no token",
                     .wanted = "at least one token to begin with",
                     .next = "give a prompt that is not empty"});
    for (const int32_t id : prompt)
      MEGACPP_REQUIRE(id >= 0 && id < vocab, E1102,
                      {.where = fmt::format("prompt {}", i),
                       .got = fmt::format("id {}", id),
                       .wanted = fmt::format("ids from 0 to {}", vocab - 1),
                       .next = "use the tokenizer that the model was trained with"});
  }
}

/// A choice by them would be the same token for ever, or none.
void require_finite_logits(std::span<const float> logits, size_t sequence, int64_t position) {
  const auto bad = std::ranges::find_if_not(logits, [](float logit) { return std::isfinite(logit); });
  MEGACPP_REQUIRE(bad == logits.end(), E1302,
                  {.where = fmt::format("prompt {}, after token {}", sequence, position),
                   .got = fmt::format("{} as the logit of token {}", *bad, bad - logits.begin()),
                   .wanted = "finite logits",
                   .next = "use weights without NaN and infinity: those of an earlier checkpoint, or get them again"});
}

/// One sequence on its way: its prompt, then what was generated.
class Sequence {
 public:
  Sequence(const GenerateRequest& request, size_t index)
      : request_(request), prompt_(request.prompts[index]), index_(index) {
    tokens_.reserve(static_cast<size_t>(request.new_tokens));
    is_done_ = request.new_tokens == 0;
  }

  /// The token at a position; any for a sequence that is done.
  int32_t at(int64_t position) const {
    const auto place = static_cast<size_t>(position);
    if (place < prompt_.size()) return prompt_[place];
    return place - prompt_.size() < tokens_.size() ? tokens_[place - prompt_.size()] : 0;
  }

  void take(std::span<const float> logits, int64_t position, Sampler& sampler) {
    if (is_done_ || position + 1 < std::ssize(prompt_)) return;
    require_finite_logits(logits, index_, position);
    const int32_t token = sampler.choose(logits, static_cast<int64_t>(index_), position);
    tokens_.push_back(token);
    is_done_ = token == request_.end || std::ssize(tokens_) == request_.new_tokens;
    if (request_.on_token) request_.on_token(index_, token);
  }

  bool is_done() const { return is_done_; }
  std::vector<int32_t> tokens() && { return std::move(tokens_); }

 private:
  const GenerateRequest& request_;
  const std::vector<int32_t>& prompt_;
  size_t index_;
  std::vector<int32_t> tokens_;
  bool is_done_ = false;
};

/// All sequences on their way through a decoder.
class Batch {
 public:
  Batch(Decoder& decoder, const GenerateRequest& request)
      : decoder_(decoder), request_(request), sampler_(request.sampling), vocab_(static_cast<size_t>(decoder.vocab())) {
    for (size_t i = 0; i < request.prompts.size(); ++i) sequences_.emplace_back(request, i);
    ids_.resize(sequences_.size() * static_cast<size_t>(decoder.chunk()));
    row_.resize(sequences_.size() * vocab_);
  }

  bool is_done() const { return std::ranges::all_of(sequences_, &Sequence::is_done); }

  /// The tokens of all sequences from `first` on, a chunk of the decoder.
  void read_chunk(int64_t first) {
    const auto chunk = static_cast<size_t>(decoder_.chunk());
    for (size_t i = 0; i < sequences_.size(); ++i)
      for (size_t t = 0; t < chunk; ++t) ids_[i * chunk + t] = sequences_[i].at(first + static_cast<int64_t>(t));
    const std::span<const float> logits = decoder_.read_chunk(ids_);
    if (request_.on_read) request_.on_read(first + static_cast<int64_t>(chunk));
    for (size_t t = 0; t < chunk; ++t) {
      if (!request_.on_logits && t + 1 < chunk) continue;  // nothing is chosen inside of prompts
      for (size_t i = 0; i < sequences_.size(); ++i)
        std::ranges::copy(logits.subspan((i * chunk + t) * vocab_, vocab_), row_.begin() + index(i));
      take(row_, first + static_cast<int64_t>(t));
    }
  }

  void read_token(int64_t position) {
    const std::span<int32_t> ids = std::span(ids_).first(sequences_.size());
    std::ranges::transform(sequences_, ids.begin(), [position](const Sequence& each) { return each.at(position); });
    const std::span<const float> logits = decoder_.step(ids);
    if (request_.on_read) request_.on_read(position + 1);
    take(logits, position);
  }

  std::vector<std::vector<int32_t>> tokens() && {
    std::vector<std::vector<int32_t>> tokens;
    for (Sequence& each : sequences_) tokens.push_back(std::move(each).tokens());
    return tokens;
  }

 private:
  std::ptrdiff_t index(size_t sequence) const { return static_cast<std::ptrdiff_t>(sequence * vocab_); }

  // logits: [sequences, vocab]
  void take(std::span<const float> logits, int64_t position) {
    if (request_.on_logits) request_.on_logits(position, logits);
    for (size_t i = 0; i < sequences_.size(); ++i)
      sequences_[i].take(logits.subspan(i * vocab_, vocab_), position, sampler_);
  }

  Decoder& decoder_;
  const GenerateRequest& request_;
  Sampler sampler_;
  size_t vocab_;
  std::vector<Sequence> sequences_;
  std::vector<int32_t> ids_;  // [sequences, chunk], or of one position
  std::vector<float> row_;    // [sequences, vocab], of one position of a chunk
};

}  // namespace

int64_t longest_sequence(const GenerateRequest& request) { return longest_prompt(request) + request.new_tokens; }

int64_t longest_prompt(const GenerateRequest& request) {
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : request.prompts) longest = std::max(longest, prompt.size());
  return static_cast<int64_t>(longest);
}

int64_t shortest_prompt(const GenerateRequest& request) {
  size_t shortest = std::numeric_limits<size_t>::max();
  for (const std::vector<int32_t>& prompt : request.prompts) shortest = std::min(shortest, prompt.size());
  return request.prompts.empty() ? 0 : static_cast<int64_t>(shortest);
}

Generated generate(Decoder& decoder, const GenerateRequest& request) {
  check_prompts(request, decoder.vocab());
  Batch batch(decoder, request);
  const auto start = std::chrono::steady_clock::now();
  decoder.reset();
  int64_t position = 0;
  if (const int64_t chunk = decoder.chunk(), known = shortest_prompt(request); chunk > 1 && !batch.is_done())
    for (; position + chunk <= known; position += chunk) batch.read_chunk(position);
  for (; !batch.is_done(); ++position) batch.read_token(position);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {.tokens = std::move(batch).tokens(), .positions = position, .seconds = seconds};
}

}  // namespace megacpp::train
