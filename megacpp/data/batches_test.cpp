// SPDX-License-Identifier: Apache-2.0
#include "megacpp/data/batches.h"

#include <gtest/gtest.h>

#include <set>

#include "megacpp/base/error.h"

namespace megacpp::data {
namespace {

TextCorpus counting_corpus(int64_t size) {
  TextCorpus corpus;
  for (int64_t i = 0; i < size; ++i) corpus.bytes.push_back(static_cast<uint8_t>(i % 251));
  corpus.document_begins = {0, size / 3, size / 2};
  return corpus;
}

struct Filled {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;
};

Filled run(const TextCorpus& corpus, const BatchOptions& options, int64_t steps) {
  const Batches batches(corpus, options);
  Filled all;
  const auto size = static_cast<size_t>(options.batch * options.sequence);
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t micro = 0; micro < options.micro_steps; ++micro) {
      Filled part{std::vector<int32_t>(size), std::vector<int32_t>(size)};
      batches.fill(step, micro, part.ids, part.labels);
      all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
      all.labels.insert(all.labels.end(), part.labels.begin(), part.labels.end());
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
  const Filled filled = run(corpus, {.batch = 3, .sequence = 7, .seed = 5}, 4);
  for (size_t i = 0; i < filled.ids.size(); ++i) EXPECT_EQ(filled.labels[i], (filled.ids[i] + 1) % 251);
}

TEST(BatchesTest, TheOrderDoesNotDependOnHowSequencesAreDealtOut) {
  const TextCorpus corpus = counting_corpus(1000);
  const Filled wide = run(corpus, {.batch = 8, .sequence = 5, .micro_steps = 1, .seed = 9}, 2);
  const Filled narrow = run(corpus, {.batch = 2, .sequence = 5, .micro_steps = 4, .seed = 9}, 2);
  EXPECT_EQ(wide.ids, narrow.ids);
  EXPECT_NE(wide.ids, run(corpus, {.batch = 8, .sequence = 5, .seed = 10}, 2).ids);
}

TEST(BatchesTest, StartsCoverTheWholeCorpusAndStayInside) {
  const TextCorpus corpus = counting_corpus(20);
  const Batches batches(corpus, {.sequence = 16, .seed = 1});
  std::set<int64_t> starts;
  for (int64_t i = 0; i < 200; ++i) starts.insert(batches.start_of(i));
  EXPECT_EQ(starts, (std::set<int64_t>{0, 1, 2, 3}));
}

TEST(BatchesTest, DocumentsAreCountedWithinEachSequence) {
  const TextCorpus corpus = counting_corpus(30);  // documents begin at 0, 10, 15
  const Batches batches(corpus, {.sequence = 25, .seed = 1});
  std::vector<int32_t> documents(25);
  for (int64_t index = 0; index < 8; ++index) {
    batches.fill_documents(index, documents);
    const int64_t start = batches.start_of(index);
    for (int64_t i = 0; i < 25; ++i) {
      const int32_t expected = (start + i >= 10 ? 1 : 0) + (start + i >= 15 ? 1 : 0);
      EXPECT_EQ(documents[static_cast<size_t>(i)], expected) << "start " << start << " token " << i;
    }
  }
}

TEST(BatchesTest, ShortTextAndSmallVocabulariesAreRefused) {
  EXPECT_EQ(code_of(counting_corpus(8), {.sequence = 8}), base::Code::E1101);
  EXPECT_EQ(code_of(counting_corpus(9), {.sequence = 8}), base::Code::E9001);
  EXPECT_EQ(code_of(counting_corpus(9), {.sequence = 8, .vocab = 255}), base::Code::E1102);
}

}  // namespace
}  // namespace megacpp::data
