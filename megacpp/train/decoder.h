// SPDX-License-Identifier: Apache-2.0
// A model that reads one token of each sequence at a time and keeps what later ones need: keys and values, states of
// recurrences. Compiled once for a number of sequences and a length; a step allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "megacpp/checkpoint/name_map.h"
#include "megacpp/compile/compiled.h"
#include "megacpp/recipe/recipe.h"
#include "megacpp/runtime/executable.h"

namespace megacpp::train {

struct DecoderOptions {
  int64_t sequences = 1;
  int64_t length = 0;   // tokens of a sequence at most
  int64_t threads = 0;  // 0: all cores
};

class Decoder {
 public:
  /// E1203 for weights that are not the model's, E1505 for a model that cannot run token by token,
  /// memory::OutOfMemory.
  Decoder(const recipe::Model& model, const checkpoint::TensorMap& weights, const DecoderOptions& options);

  /// Takes the next token of each sequence and returns logits of the one after it, f32[sequences, vocab], valid until
  /// the next call. ids: [sequences], each below vocab. At most `length` times.
  std::span<const float> step(std::span<const int32_t> ids);
  /// Forgets all tokens.
  void reset();

  int64_t position() const { return position_; }  // tokens taken so far
  int64_t vocab() const { return vocab_; }
  const compile::Compiled& compiled() const { return compiled_; }

 private:
  /// Which token each slot of a cache holds.
  struct Slots {
    std::string input;
    std::vector<int32_t> positions;
  };

  compile::Compiled compiled_;
  std::unique_ptr<runtime::Executable> run_;
  std::vector<std::string> state_;  // names
  std::vector<Slots> slots_;
  std::vector<float> logits_;  // [sequences, vocab]
  DecoderOptions options_;
  int64_t vocab_;
  int64_t position_ = 0;
};

}  // namespace megacpp::train
