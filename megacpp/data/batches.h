// SPDX-License-Identifier: Apache-2.0
// Training sequences drawn from a corpus. Sequence number n of a run is a pure function of (seed, n) and the corpus:
// it does not depend on batch size, micro-steps or layout, so any way of dealing out the same numbers trains alike.
// Filling never allocates. The corpus must outlive the object.
#pragma once

#include <cstdint>
#include <span>

#include "megacpp/base/philox.h"
#include "megacpp/data/text_corpus.h"

namespace megacpp::data {

struct BatchOptions {
  int64_t batch = 1;        // sequences per micro-step
  int64_t sequence = 1;     // tokens
  int64_t micro_steps = 1;  // per step
  int64_t vocab = kByteVocabulary;
  uint64_t seed = 0;
};

class Batches {
 public:
  /// E1101 when the corpus is shorter than a sequence and its next byte, E1102 when the vocabulary lacks bytes.
  Batches(const TextCorpus& corpus, const BatchOptions& options);

  /// The micro-step's tokens and the token after each. ids, labels: [batch, sequence]
  void fill(int64_t step, int64_t micro_step, std::span<int32_t> ids, std::span<int32_t> labels) const;

  /// Sequences `first` onwards, as many as the spans hold. ids, labels: [any, sequence]
  void fill_sequences(int64_t first, std::span<int32_t> ids, std::span<int32_t> labels) const;

  /// For each token which document of its sequence it is in, counted from 0. documents: [any, sequence]
  void fill_documents(int64_t first, std::span<int32_t> documents) const;

  /// Number of the first sequence of a micro-step.
  int64_t first_sequence(int64_t step, int64_t micro_step) const;
  /// Where in the corpus sequence number `index` begins.
  int64_t start_of(int64_t index) const;

 private:
  const TextCorpus& corpus_;
  BatchOptions options_;
  base::Philox random_;
};

}  // namespace megacpp::data
