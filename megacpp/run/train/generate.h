// SPDX-License-Identifier: Apache-2.0
// Text of a decoder: prompts are read in its chunks as far as all of them reach, then token by token, then tokens are
// chosen and read in turn. All sequences run side by side from their first token, so one with a short prompt begins to
// generate while longer prompts are still read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "megacpp/run/train/decoder.h"
#include "megacpp/run/train/sampler.h"

namespace megacpp::train {

struct GenerateRequest {
  std::vector<std::vector<int32_t>> prompts;  // one for each sequence of the decoder, none empty
  int64_t new_tokens = 0;                     // of each sequence at most
  std::optional<int32_t> end = {};            // a sequence ends with this token
  Sampling sampling = {};
  std::function<void(size_t sequence, int32_t token)> on_token = {};
  /// [sequences, vocab], after the token at `position` of each sequence.
  std::function<void(int64_t position, std::span<const float> logits)> on_logits = {};
  /// When so many tokens of each sequence have been read, before one is chosen by them.
  std::function<void(int64_t positions)> on_read = {};
};

struct Generated {
  std::vector<std::vector<int32_t>> tokens;  // without prompts; `end` is the last where it was chosen
  int64_t positions = 0;                     // that were read of every sequence
  double seconds = 0;
};

/// Tokens of the longest sequence that the request can make.
int64_t longest_sequence(const GenerateRequest& request);
/// Tokens of the shortest prompt, and of the longest.
int64_t shortest_prompt(const GenerateRequest& request);
int64_t longest_prompt(const GenerateRequest& request);

/// The decoder is reset first. E1102 for an empty prompt and for ids outside the vocabulary, E1302 where a token is to
/// be chosen by logits that are not finite.
Generated generate(Decoder& decoder, const GenerateRequest& request);

}  // namespace megacpp::train
