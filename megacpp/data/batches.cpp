// SPDX-License-Identifier: Apache-2.0
#include "megacpp/data/batches.h"

#include <algorithm>

#include "megacpp/base/error.h"

namespace megacpp::data {

Batches::Batches(const TextCorpus& corpus, const BatchOptions& options)
    : corpus_(corpus), options_(options), random_(options.seed, "data") {
  const auto size = static_cast<int64_t>(corpus.bytes.size());
  MEGACPP_REQUIRE(
      size > options.sequence, E1101,
      {.where = "data.text",
       .got = std::to_string(size) + " bytes of text",
       .wanted = "at least " + std::to_string(options.sequence + 1) + ": one sequence and the byte after it",
       .next = "give more text or a smaller train.sequence"});
  MEGACPP_REQUIRE(options.vocab >= kByteVocabulary, E1102,
                  {.where = "model.vocab",
                   .got = std::to_string(options.vocab),
                   .wanted = "at least 256: tokens are bytes",
                   .next = "set model.vocab: 256"});
}

int64_t Batches::first_sequence(int64_t step, int64_t micro_step) const {
  return (step * options_.micro_steps + micro_step) * options_.batch;
}

int64_t Batches::start_of(int64_t index) const {
  // The corpus is capped far below 2^32 bytes, so a 32-bit word scaled to the range is as good as uniform.
  const uint64_t starts = corpus_.bytes.size() - static_cast<uint64_t>(options_.sequence);
  return static_cast<int64_t>((random_.word(static_cast<uint64_t>(index)) * starts) >> 32);
}

void Batches::fill(int64_t step, int64_t micro_step, std::span<int32_t> ids, std::span<int32_t> labels) const {
  MEGACPP_CHECK(static_cast<int64_t>(ids.size()) == options_.batch * options_.sequence) << ids.size() << " ids";
  fill_sequences(first_sequence(step, micro_step), ids, labels);
}

void Batches::fill_sequences(int64_t first, std::span<int32_t> ids, std::span<int32_t> labels) const {
  const auto sequence = static_cast<size_t>(options_.sequence);
  MEGACPP_CHECK(ids.size() == labels.size() && ids.size() % sequence == 0)
      << ids.size() << " ids, " << labels.size() << " labels";
  for (size_t row = 0; row < ids.size() / sequence; ++row) {
    const uint8_t* text = corpus_.bytes.data() + start_of(first + static_cast<int64_t>(row));
    std::copy_n(text, sequence, ids.begin() + static_cast<std::ptrdiff_t>(row * sequence));
    std::copy_n(text + 1, sequence, labels.begin() + static_cast<std::ptrdiff_t>(row * sequence));
  }
}

void Batches::fill_documents(int64_t first, std::span<int32_t> documents) const {
  const auto sequence = static_cast<size_t>(options_.sequence);
  MEGACPP_CHECK(documents.size() % sequence == 0) << documents.size() << " tokens";
  const auto& begins = corpus_.document_begins;
  for (size_t row = 0; row < documents.size() / sequence; ++row) {
    const int64_t start = start_of(first + static_cast<int64_t>(row));
    auto next = std::upper_bound(begins.begin(), begins.end(), start);
    int32_t document = 0;
    for (size_t i = 0; i < sequence; ++i) {
      if (next != begins.end() && start + static_cast<int64_t>(i) == *next) ++document, ++next;
      documents[row * sequence + i] = document;
    }
  }
}

}  // namespace megacpp::data
