// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/text_corpus.h"

#include <gtest/gtest.h>

#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"

namespace megacpp::data {
namespace {

class TextCorpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::path(::testing::TempDir()) / ("megacpp_corpus_" + name);
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "sub");
    base::write_file_atomically(folder_ / "b.txt", "bb");
    base::write_file_atomically(folder_ / "a.txt", "aaa");
    base::write_file_atomically(folder_ / "empty.txt", "");
    base::write_file_atomically(folder_ / ".hidden", "hidden");
    base::write_file_atomically(folder_ / "sub" / "c.md", "cccc");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TextCorpus load(const std::vector<std::string>& below, int64_t max_bytes = kMaxCorpusBytes) const {
    std::vector<std::string> sources;
    for (const std::string& path : below) sources.push_back((folder_ / path).string());
    return load_text(sources, max_bytes);
  }

  std::filesystem::path folder_;
};

std::string text_of(const TextCorpus& corpus) { return {corpus.bytes.begin(), corpus.bytes.end()}; }

TEST_F(TextCorpusTest, FoldersAreWalkedInPathOrderWithoutHiddenOrEmptyFiles) {
  const TextCorpus corpus = load({""});
  EXPECT_EQ(text_of(corpus), "aaabbcccc");
  EXPECT_EQ(corpus.document_begins, (std::vector<int64_t>{0, 3, 5}));
  EXPECT_EQ(corpus.files.size(), 3u);
}

TEST_F(TextCorpusTest, SourcesKeepTheirOrderAndGlobsAreSorted) {
  EXPECT_EQ(text_of(load({"sub", "a.txt"})), "ccccaaa");
  EXPECT_EQ(text_of(load({"*.txt"})), "aaabb");
}

TEST_F(TextCorpusTest, TheCapCutsTheLastDocument) {
  const TextCorpus corpus = load({""}, 4);
  EXPECT_EQ(text_of(corpus), "aaab");
  EXPECT_EQ(corpus.document_begins, (std::vector<int64_t>{0, 3}));
}

TEST_F(TextCorpusTest, MissingAndEmptySourcesAreRefused) {
  for (const char* source : {"none.txt", "*.none", "empty.txt"}) {
    try {
      load({source});
      ADD_FAILURE() << "accepted " << source;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::E1101) << source;
    }
  }
}

TEST_F(TextCorpusTest, NoSourceMeansTheHeadersOfThisMachine) {
  if (!std::filesystem::exists("/usr/include/c++")) GTEST_SKIP() << "no C++ headers under /usr/include/c++";
  const TextCorpus corpus = load_text({}, int64_t{1} << 20);
  EXPECT_EQ(corpus.bytes.size(), size_t{1} << 20);
  EXPECT_EQ(corpus.bytes, load_text({}, int64_t{1} << 20).bytes);
}

TextCorpus numbered_text(int64_t size) {
  TextCorpus corpus;
  corpus.document_begins = {0};
  for (int64_t i = 0; i < size; ++i) corpus.bytes.push_back(static_cast<uint8_t>(i));
  return corpus;
}

TEST(TextSourceTest, StartsCoverTheWholeTextAndStayInside) {
  const TextCorpus corpus = numbered_text(20);
  std::set<int64_t> starts;
  for (int64_t i = 0; i < 200; ++i) starts.insert(corpus.start_of({.seed = 1}, i, 16));
  EXPECT_EQ(starts, (std::set<int64_t>{0, 1, 2, 3}));
}

TEST(TextSourceTest, TrainingNeverReadsWhatIsHeldOut) {
  const TextCorpus corpus = numbered_text(100);
  const Draw training = {.seed = 1, .held_out = 0.2};
  const Draw held_out = {.seed = 1, .held_out = 0.2, .part = Draw::Part::held_out};
  std::vector<int32_t> tokens(9);
  for (int64_t i = 0; i < 500; ++i) {
    corpus.read(training, i, tokens, {});
    EXPECT_LT(tokens.back(), 80);
  }
  EXPECT_EQ(corpus.sequences(held_out, 8), 2);
  for (int64_t i = 0; i < 3; ++i) {
    corpus.read(held_out, i, tokens, {});
    EXPECT_EQ(tokens.front(), 80 + i % 2 * 8);
  }
}

TEST(TextSourceTest, TheFingerprintIsThatOfTextAndDocuments) {
  const TextCorpus corpus = numbered_text(100);
  TextCorpus other = corpus;
  EXPECT_EQ(corpus.fingerprint(), other.fingerprint());
  other.document_begins.push_back(50);
  EXPECT_NE(corpus.fingerprint(), other.fingerprint());
}

}  // namespace
}  // namespace megacpp::data
