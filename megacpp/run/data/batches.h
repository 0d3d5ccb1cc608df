// SPDX-License-Identifier: Apache-2.0
// The micro-batches of a run: sequences of a source dealt out by step and micro-step. Sample number n of a run is the
// same however batch size, micro-steps and layout deal the numbers out. Filling never allocates; one thread at a time.
// The source must outlive the object.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megacpp/run/data/source.h"

namespace megacpp::data {

struct BatchOptions {
  int64_t batch = 1;        // sequences per micro-step
  int64_t sequence = 1;     // tokens
  int64_t micro_steps = 1;  // per step
  int64_t vocab = 256;
  Draw draw = {};
  /// What the run had consumed before `first_step`.
  Position start = {};
  int64_t first_step = 0;
};

/// One micro-batch; those that nobody reads are empty. Each [batch, sequence]
struct MicroBatch {
  std::vector<int32_t> ids = {}, labels = {};    // labels: the token after each
  std::vector<int32_t> segments = {};            // document of the sequence that a token is in, from 0
  std::vector<int32_t> document_positions = {};  // place of a token in its document, 0 where that or the row begins
};

class Batches {
 public:
  /// E1101 when the source is shorter than a sequence and its next token, E1102 when the vocabulary is too small.
  Batches(const TokenSource& source, const BatchOptions& options);

  /// Fills the members of `micro` that have their size. E1102 on a token outside the vocabulary.
  void fill(int64_t step, int64_t micro_step, MicroBatch& micro) const;
  /// The same of some rows alone: no other sample is read, and other rows stay as they are.
  void fill_rows(int64_t step, int64_t micro_step, std::span<const int64_t> rows, MicroBatch& micro) const;

  /// Number of the first sample of a micro-step.
  int64_t first_sample(int64_t step, int64_t micro_step) const;
  /// Where a run stands before a step.
  Position position(int64_t step) const { return {first_sample(step, 0)}; }

  const BatchOptions& options() const { return options_; }

 private:
  void fill_row(int64_t sample, size_t row, MicroBatch& micro) const;

  const TokenSource& source_;
  BatchOptions options_;
  std::vector<int64_t> all_rows_;
  mutable std::vector<int32_t> tokens_, segments_;  // of one sample: [sequence + 1], [sequence]
};

}  // namespace megacpp::data
