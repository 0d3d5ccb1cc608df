// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/run/data/indexed_dataset.h"
#include "megacpp/run/data/text_corpus.h"
#include "tests/support/errors.h"

namespace megacpp::data {
namespace {

TextCorpus counting_corpus(int64_t size) {
  TextCorpus corpus;
  for (int64_t i = 0; i < size; ++i) corpus.bytes.push_back(static_cast<uint8_t>(i % 251));
  corpus.document_begins = {0, size / 3, size / 2};
  return corpus;
}

MicroBatch micro_batch(const BatchOptions& options) {
  const std::vector<int32_t> tokens(static_cast<size_t>(options.batch * options.sequence));
  return {.ids = tokens, .labels = tokens, .segments = tokens, .document_positions = tokens};
}

MicroBatch run(const TokenSource& corpus, const BatchOptions& options, int64_t steps) {
  const Batches batches(corpus, options);
  MicroBatch all;
  const auto append = [](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t micro = 0; micro < options.micro_steps; ++micro) {
      MicroBatch part = micro_batch(options);
      batches.fill(options.first_step + step, micro, part);
      append(all.ids, part.ids);
      append(all.labels, part.labels);
      append(all.segments, part.segments);
      append(all.document_positions, part.document_positions);
    }
  }
  return all;
}

base::Code code_of(const TextCorpus& corpus, const BatchOptions& options) {
  try {
    Batches(corpus, options);
  } catch (const base::Error& error) {
    return error.code();
  }
  return base::Code::E9001;
}

TEST(BatchesTest, LabelsAreTheNextByte) {
  const TextCorpus corpus = counting_corpus(1000);
  const MicroBatch filled = run(corpus, {.batch = 3, .sequence = 7, .draw = {.seed = 5}}, 4);
  for (size_t i = 0; i < filled.ids.size(); ++i) EXPECT_EQ(filled.labels[i], (filled.ids[i] + 1) % 251);
}

TEST(BatchesTest, TheOrderDoesNotDependOnHowSequencesAreDealtOut) {
  const TextCorpus corpus = counting_corpus(1000);
  const MicroBatch wide = run(corpus, {.batch = 8, .sequence = 5, .micro_steps = 1, .draw = {.seed = 9}}, 2);
  const MicroBatch narrow = run(corpus, {.batch = 2, .sequence = 5, .micro_steps = 4, .draw = {.seed = 9}}, 2);
  EXPECT_EQ(wide.ids, narrow.ids);
  EXPECT_NE(wide.ids, run(corpus, {.batch = 8, .sequence = 5, .draw = {.seed = 10}}, 2).ids);
}

TEST(BatchesTest, ARunThatGoesOnReadsWhatTheUninterruptedOneDoes) {
  const TextCorpus corpus = counting_corpus(1000);
  const BatchOptions whole = {.batch = 4, .sequence = 5, .micro_steps = 2, .draw = {.seed = 9}};
  BatchOptions later = whole;
  later.first_step = 3;
  later.start = Batches(corpus, whole).position(3);
  EXPECT_EQ(later.start.samples_consumed, 24);
  const std::vector<int32_t> all = run(corpus, whole, 5).ids;
  EXPECT_EQ(std::vector<int32_t>(all.begin() + 3 * 40, all.end()), run(corpus, later, 2).ids);
  later.batch = 2;  // another batch goes on at the same sample
  EXPECT_EQ(std::vector<int32_t>(all.begin() + 3 * 40, all.begin() + 4 * 40), run(corpus, later, 2).ids);
}

TEST(BatchesTest, DocumentsAndPlacesInThemAreCountedWithinEachSequence) {
  const TextCorpus corpus = counting_corpus(30);  // documents begin at 0, 10, 15
  const BatchOptions options = {.sequence = 25, .draw = {.seed = 1}};
  const Batches batches(corpus, options);
  MicroBatch micro = micro_batch(options);
  for (int64_t sample = 0; sample < 8; ++sample) {
    batches.fill(sample, 0, micro);
    const int64_t start = corpus.start_of(options.draw, sample, 25);
    for (int64_t i = 0; i < 25; ++i) {
      const int64_t at = start + i, begin = at >= 15 ? 15 : at >= 10 ? 10 : 0;
      EXPECT_EQ(micro.segments[static_cast<size_t>(i)], (at >= 10 ? 1 : 0) + (at >= 15 ? 1 : 0)) << start << " " << i;
      EXPECT_EQ(micro.document_positions[static_cast<size_t>(i)], at - std::max(begin, start)) << start << " " << i;
    }
  }
}

TEST(BatchesTest, RowsThatNobodyAsksForAreNotTouched) {
  const TextCorpus corpus = counting_corpus(1000);
  const BatchOptions options = {.batch = 3, .sequence = 7, .draw = {.seed = 5}};
  const Batches batches(corpus, options);
  MicroBatch whole = micro_batch(options), some = micro_batch(options);
  batches.fill(2, 0, whole);
  std::ranges::fill(some.ids, -1);
  batches.fill_rows(2, 0, std::vector<int64_t>{1}, some);
  for (size_t i = 0; i < some.ids.size(); ++i) EXPECT_EQ(some.ids[i], i / 7 == 1 ? whole.ids[i] : -1);
}

TEST(BatchesTest, MembersWithoutASizeAreNotFilled) {
  const TextCorpus corpus = counting_corpus(100);
  MicroBatch micro;
  micro.ids.resize(6);
  Batches(corpus, {.batch = 2, .sequence = 3}).fill(0, 0, micro);
  EXPECT_TRUE(micro.labels.empty() && micro.segments.empty() && micro.document_positions.empty());
  EXPECT_EQ(micro.ids[1], micro.ids[0] + 1);
}

TEST(BatchesTest, ShortTextAndSmallVocabulariesAreRefused) {
  EXPECT_EQ(code_of(counting_corpus(8), {.sequence = 8}), base::Code::E1101);
  EXPECT_EQ(code_of(counting_corpus(9), {.sequence = 8}), base::Code::E9001);
  EXPECT_EQ(code_of(counting_corpus(9), {.sequence = 8, .vocab = 255}), base::Code::E1102);
}

TEST(BatchesTest, TokensBeyondTheVocabularyAreRefusedBeforeAStepReadsThem) {
  const IndexedDataset dataset(std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/datasets/uint16");  // tokens up to 102
  constexpr int64_t kEpoch = 5;
  EXPECT_EQ(run(dataset, {.sequence = 3, .vocab = 103}, kEpoch).ids.size(), 15U);
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1102, [&] { run(dataset, {.sequence = 3, .vocab = 102}, kEpoch); });
  EXPECT_EQ(problem.got, "token 102");
  EXPECT_EQ(problem.wanted, "tokens from 0 to 101: model.vocab is 102");
}

}  // namespace
}  // namespace megacpp::data
