// SPDX-License-Identifier: Apache-2.0
// A model that reads the next token of each sequence and keeps what later ones need: keys and values, states of
// recurrences. Where prompts are long, a second program reads their tokens in chunks; it has the weights once more, and
// what it keeps is handed over when reading goes on token by token. Compiled once for a number of sequences and a
// length; a step allocates nothing, but the first one after the state was handed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "megacpp/core/ir/dtype.h"
#include "megacpp/machine/runtime/executable.h"
#include "megacpp/program/compile/compiled.h"
#include "megacpp/program/recipe/recipe.h"
#include "megacpp/run/checkpoint/name_map.h"

namespace megacpp::train {

struct DecoderOptions {
  int64_t sequences = 1;
  int64_t length = 0;   // tokens of a sequence at most
  int64_t prompt = 0;   // tokens that are known of every sequence: how many it pays to read at once
  int64_t threads = 0;  // 0: all cores
  ir::DType compute = ir::DType::f32;
};

class Decoder {
 public:
  /// E1203 for weights that are not the model's, E1505 for a model that cannot run token by token,
  /// memory::OutOfMemory.
  Decoder(const recipe::Model& model, const checkpoint::TensorMap& weights, const DecoderOptions& options);

  /// Takes the next token of each sequence and returns logits of the one after it, f32[sequences, vocab], valid until
  /// the next call. ids: [sequences], each below vocab. In all at most `length` tokens.
  std::span<const float> step(std::span<const int32_t> ids);
  /// The same for the next chunk() tokens of each sequence. ids: [sequences, chunk()]; logits: [sequences, chunk(),
  /// vocab].
  std::span<const float> read_chunk(std::span<const int32_t> ids);
  /// Forgets all tokens.
  void reset();

  int64_t chunk() const { return chunk_ ? chunk_->tokens : 1; }
  int64_t position() const { return position_; }  // tokens taken so far
  int64_t vocab() const { return vocab_; }

 private:
  /// What reads so many tokens of each sequence at once.
  struct Program {
    int64_t tokens;
    compile::Compiled compiled;
    std::unique_ptr<runtime::Executable> run;
    std::vector<float> logits;  // [sequences, tokens, vocab]
    bool reads_positions;
  };
  /// Which token each slot of a cache holds.
  struct Slots {
    std::string input;
    std::vector<int32_t> positions;
  };

  std::unique_ptr<Program> load(const recipe::Model& model, const checkpoint::TensorMap& weights, int64_t tokens);
  std::span<const float> run(Program& program, std::span<const int32_t> ids);
  void move_state(Program& to);

  DecoderOptions options_;
  int64_t vocab_;
  int64_t step_tokens_;             // of the program with the longest step
  std::vector<std::string> state_;  // names
  std::unique_ptr<Program> step_;   // reads one token
  std::unique_ptr<Program> chunk_;  // reads several; none where that pays nothing
  Program* holder_ = nullptr;       // whose state is that of all tokens so far
  std::vector<Slots> slots_;        // by size of caches
  std::vector<int32_t> positions_;  // of the tokens of a step
  std::vector<std::byte> moved_;    // the largest tensor of state, on its way to the other program
  int64_t position_ = 0;
};

}  // namespace megacpp::train
