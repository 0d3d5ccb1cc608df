// SPDX-License-Identifier: Apache-2.0
#include "megacpp/train/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "megacpp/base/error.h"

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

}  // namespace

int64_t longest_sequence(const GenerateRequest& request) {
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : request.prompts) longest = std::max(longest, prompt.size());
  return static_cast<int64_t>(longest) + request.new_tokens;
}

Generated generate(Decoder& decoder, const GenerateRequest& request) {
  check_prompts(request, decoder.vocab());
  Sampler sampler(request.sampling);
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < request.prompts.size(); ++i) sequences.emplace_back(request, i);
  std::vector<int32_t> ids(sequences.size());
  const auto vocab = static_cast<size_t>(decoder.vocab());
  const auto start = std::chrono::steady_clock::now();
  decoder.reset();
  Generated generated;
  for (int64_t p = 0; !std::ranges::all_of(sequences, &Sequence::is_done); ++p) {
    std::ranges::transform(sequences, ids.begin(), [p](const Sequence& each) { return each.at(p); });
    const std::span<const float> logits = decoder.step(ids);
    if (request.on_logits) request.on_logits(p, logits);
    for (size_t i = 0; i < sequences.size(); ++i) sequences[i].take(logits.subspan(i * vocab, vocab), p, sampler);
    ++generated.steps;
  }
  generated.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (Sequence& each : sequences) generated.tokens.push_back(std::move(each).tokens());
  return generated;
}

}  // namespace megacpp::train
