// SPDX-License-Identifier: Apache-2.0
// Trains a byte-level BPE: from single bytes on, the pair of neighbouring tokens that is most frequent within words
// becomes a token, until there are as many as wanted. The same words give the same tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "megacpp/run/data/bpe/tokenizer_json.h"
#include "megacpp/run/data/bpe/word_counts.h"

namespace megacpp::data::bpe {

struct TrainOptions {
  int64_t vocabulary = 32'768;  // tokens in all: bytes, merges and special ones
  std::vector<std::string> special = {"<|endoftext|>"};
  /// Called now and then: tokens so far, and wanted.
  std::function<void(int64_t tokens, int64_t wanted)> on_progress = {};
};

/// Fewer tokens than wanted where no pair is left that occurs twice. Of equally frequent pairs the one with the smaller
/// ids is taken. E1003 for a vocabulary without space for bytes and special tokens, or with a special token that is
/// empty or there twice, E1101 where there are no words.
TrainedBpe train_bpe(std::span<const CountedWord> words, const TrainOptions& options);

}  // namespace megacpp::data::bpe
