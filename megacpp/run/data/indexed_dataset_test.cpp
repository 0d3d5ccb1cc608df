// SPDX-License-Identifier: Apache-2.0
// Datasets against files that a script of its own wrote (tests/golden/datasets), and indexes that lie.
#include "megacpp/run/data/indexed_dataset.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/run/data/indexed_writer.h"
#include "tests/support/errors.h"
#include "tests/support/file_calls.h"

namespace megacpp::data {
namespace {

namespace fs = std::filesystem;
using Documents = std::vector<std::vector<int32_t>>;

const std::string kGolden = std::string(MEGACPP_SOURCE_DIR) + "/tests/golden/datasets/";
const Documents kDocuments = {{1, 2, 3}, {}, {4, 5, 6, 7, 8}, {9}, {10, 11, 12, 13}, {100, 101, 102}};

Documents documents_of(const IndexedDataset& dataset) {
  Documents documents;
  for (int64_t i = 0; i < dataset.index().documents(); ++i) {
    const int64_t begin = dataset.index().begin_of(i), end = dataset.index().begin_of(i + 1);
    dataset.copy(begin, documents.emplace_back(static_cast<size_t>(end - begin)));
  }
  return documents;
}

class IndexedDatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("megacpp_indexed_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const Documents& documents, TokenType type = TokenType::u16) const {
    IndexedWriter writer(folder_ / "set", type);
    for (const std::vector<int32_t>& document : documents) writer.add(document);
    writer.finish();
    return folder_ / "set";
  }

  fs::path folder_;
};

TEST_F(IndexedDatasetTest, TokensAndIndexAreSyncedBeforeTheyGetTheirNames) {
  const testing_support::FileCalls calls;
  write(kDocuments);
  EXPECT_EQ(calls.renamed(), (std::vector<std::string>{"set.bin", "set.idx"})) << "what has an index is whole";
  EXPECT_EQ(calls.renamed_too_early(), std::vector<std::string>{});
}

TEST_F(IndexedDatasetTest, ReadsWhatOthersWroteInEveryType) {
  for (const TokenTypeInfo& type : kTokenTypes) {
    SCOPED_TRACE(type.name);
    const IndexedDataset dataset(kGolden + std::string(type.name));
    EXPECT_EQ(documents_of(dataset), kDocuments);
    EXPECT_EQ(dataset.index().type().type, type.type);
    EXPECT_EQ(dataset.index().tokens(), 16);
    EXPECT_EQ(dataset.index().empty_documents(), 1);
    EXPECT_EQ(dataset.largest_token(), 102);
  }
}

TEST_F(IndexedDatasetTest, WritesTheBytesThatOthersWrite) {
  for (const TokenTypeInfo& type : kTokenTypes) {
    SCOPED_TRACE(type.name);
    const fs::path prefix = write(kDocuments, type.type);
    for (const char* ending : {".bin", ".idx"})
      EXPECT_EQ(base::read_file(prefix.string() + ending), base::read_file(kGolden + std::string(type.name) + ending));
  }
}

TEST_F(IndexedDatasetTest, DocumentsMayHaveSeveralSequences) {
  const IndexedDataset dataset(kGolden + "sentences");
  EXPECT_EQ(documents_of(dataset), (Documents{{1, 2, 3}, {4, 5, 6, 7, 8}, {9, 10}}));
  EXPECT_EQ(dataset.index().sequences(), 6);
}

// Twice the memory of this machine, in a file that is nearly all hole.
TEST_F(IndexedDatasetTest, ADatasetMayBeLargerThanMemory) {
  const int64_t memory = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  constexpr int32_t kLength = 1 << 30;  // tokens of a document, 2 bytes each
  const int64_t documents = 2 * memory / (2 * int64_t{kLength}) + 1, tokens = documents * kLength;
  std::string idx(kIndexMagic);
  const auto add = [&idx](auto value) { idx.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  add(kIndexVersion);
  add(TokenType::u16);
  add(static_cast<uint64_t>(documents));
  add(static_cast<uint64_t>(documents + 1));
  for (int64_t i = 0; i < documents; ++i) add(kLength);
  for (int64_t i = 0; i < documents; ++i) add(2 * int64_t{kLength} * i);
  for (int64_t i = 0; i <= documents; ++i) add(i);
  base::write_file_atomically(folder_ / "set.idx", idx);
  base::write_file_atomically(folder_ / "set.bin", "");
  std::error_code too_large;
  fs::resize_file(folder_ / "set.bin", static_cast<uintmax_t>(2 * tokens), too_large);
  if (too_large) GTEST_SKIP() << "no file of " << 2 * tokens << " bytes here: " << too_large.message();
  const IndexedDataset dataset(folder_ / "set");
  EXPECT_EQ(dataset.index().tokens(), tokens);
  std::vector<int32_t> last(4, 7);
  dataset.copy(tokens - 4, last);
  EXPECT_EQ(last, std::vector<int32_t>(4, 0));
  std::vector<int32_t> sample(9);
  for (int64_t i = 0; i < 100; ++i) dataset.read({.seed = 1}, i, sample, {});
}

TEST_F(IndexedDatasetTest, EitherFileNamesTheDataset) {
  EXPECT_EQ(IndexedDataset(kGolden + "uint16.bin").name(), kGolden + "uint16");
  EXPECT_EQ(IndexedDataset(kGolden + "uint16.idx").fingerprint(), IndexedDataset(kGolden + "uint16").fingerprint());
  EXPECT_NE(IndexedDataset(kGolden + "uint16").fingerprint(), IndexedDataset(kGolden + "int16").fingerprint());
}

TEST_F(IndexedDatasetTest, AnEpochReadsEverySequenceOnceInTheOrderOfItsSeed) {
  const IndexedDataset dataset(kGolden + "int32");  // 16 tokens
  const auto epoch = [&](uint64_t seed, int64_t number) {
    std::vector<std::vector<int32_t>> read;
    for (int64_t i = 0; i < 5; ++i) {
      std::vector<int32_t> tokens(4);
      dataset.read({.seed = seed}, number * 5 + i, tokens, {});
      read.push_back(tokens);
    }
    return read;
  };
  ASSERT_EQ(dataset.sequences({}, 3), 5);
  const auto first = epoch(1, 0);
  EXPECT_EQ(std::set(first.begin(), first.end()),
            (std::set<std::vector<int32_t>>{
                {1, 2, 3, 4}, {4, 5, 6, 7}, {7, 8, 9, 10}, {10, 11, 12, 13}, {13, 100, 101, 102}}));
  EXPECT_EQ(first, epoch(1, 0));
  std::set<std::vector<std::vector<int32_t>>> orders;
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (int64_t number = 0; number < 4; ++number) orders.insert(epoch(seed, number));
  EXPECT_GT(orders.size(), 8u);
}

TEST_F(IndexedDatasetTest, SegmentsCountDocumentsAndSkipEmptyOnes) {
  const IndexedDataset dataset(kGolden + "int32");
  std::vector<int32_t> tokens(16), segments(15);
  dataset.read({}, 0, tokens, segments);
  EXPECT_EQ(segments, (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4, 4}));
}

TEST_F(IndexedDatasetTest, TheHeldOutPartIsReadFrontToBack) {
  const IndexedDataset dataset(kGolden + "int32");
  const Draw held_out = {.seed = 3, .held_out = 0.4, .part = Draw::Part::held_out};
  ASSERT_EQ(dataset.sequences(held_out, 3), 2);
  ASSERT_EQ(dataset.sequences({.held_out = 0.4}, 3), 3);
  std::vector<int32_t> tokens(4);
  dataset.read(held_out, 0, tokens, {});
  EXPECT_EQ(tokens, (std::vector<int32_t>{10, 11, 12, 13}));
  for (int64_t i = 0; i < 30; ++i) {
    dataset.read({.seed = 3, .held_out = 0.4}, i, tokens, {});
    EXPECT_LT(tokens[0], 10);
  }
}

base::Problem problem_of_index(std::string idx, int64_t bin_bytes, base::Code code = base::Code::E1008) {
  try {
    TokenIndex(std::as_bytes(std::span(idx)), bin_bytes, "set.idx");
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_FALSE(error.problem().got.empty() || error.problem().wanted.empty() || error.problem().next.empty());
    return error.problem();
  }
  ADD_FAILURE() << "taken";
  return {};
}

// Bytes of a good index with some of them replaced.
template <typename T>
std::string changed(size_t at, T value) {
  std::string idx = base::read_file(kGolden + "uint16.idx");
  std::memcpy(idx.data() + at, &value, sizeof(value));
  return idx;
}

TEST_F(IndexedDatasetTest, AnIndexThatLiesIsRefused) {
  const std::string good = base::read_file(kGolden + "uint16.idx");
  constexpr size_t kLengths = kIndexHeaderBytes, kOffsets = kLengths + 6 * 4, kBounds = kOffsets + 6 * 8;
  constexpr int64_t kBytes = 32;
  for (size_t size = 0; size < good.size(); ++size) problem_of_index(good.substr(0, size), kBytes);
  problem_of_index(good + "x", kBytes);
  problem_of_index(changed(0, 'X'), kBytes);
  problem_of_index(changed(9, uint64_t{2}), kBytes);
  problem_of_index(changed(17, uint8_t{0}), kBytes);
  problem_of_index(changed(17, uint8_t{9}), kBytes);
  problem_of_index(changed(17, uint8_t{4}), kBytes);  // another element size
  problem_of_index(changed(18, uint64_t{7}), kBytes);
  problem_of_index(changed(18, ~uint64_t{0}), kBytes);
  problem_of_index(changed(18, uint64_t{0x1555555555555556}), kBytes);  // x 12 overflows
  problem_of_index(changed(26, ~uint64_t{0}), kBytes);
  problem_of_index(changed(26, uint64_t{0}), kBytes);
  problem_of_index(changed(kLengths, int32_t{-1}), kBytes);
  problem_of_index(changed(kLengths, int32_t{2147483647}), kBytes);
  problem_of_index(changed(kOffsets, int64_t{2}), kBytes);
  problem_of_index(changed(kOffsets + 16, int64_t{-8}), kBytes);
  problem_of_index(changed(kOffsets + 16, int64_t{1} << 62), kBytes);
  problem_of_index(changed(kBounds, int64_t{1}), kBytes);
  problem_of_index(changed(kBounds + 8, int64_t{-1}), kBytes);
  problem_of_index(changed(kBounds + 8, int64_t{7}), kBytes);
  problem_of_index(changed(kBounds + 16, int64_t{0}), kBytes);
  problem_of_index(changed(kBounds + 48, int64_t{5}), kBytes);
}

TEST_F(IndexedDatasetTest, ATruncatedOrLongerBinIsRefused) {
  const std::string good = base::read_file(kGolden + "uint16.idx");
  EXPECT_NE(problem_of_index(good, 30).wanted.find("cut off"), std::string::npos);
  problem_of_index(good, 0);
  EXPECT_NE(problem_of_index(good, 34).wanted.find("another file"), std::string::npos);
}

// Tokens that are gone read as zeros, which are tokens like others.
TEST_F(IndexedDatasetTest, ADatasetThatIsShortenedOrRewrittenWhileItIsReadIsRefused) {
  const std::vector<int32_t> document(100'000, 7);
  const auto refused = [&](const char* ending, const auto& change) {
    write({document, document});
    const IndexedDataset dataset(folder_ / "set");
    std::vector<int32_t> tokens(11), segments(10);
    dataset.read({}, 1, tokens, segments);
    change(folder_ / (std::string("set") + ending));
    const base::Problem problem = testing_support::problem_of(base::Code::E1008, [&] {
      for (int64_t sample = 0; sample < 10'000; ++sample) dataset.read({}, sample, tokens, segments);
    });
    EXPECT_EQ(problem.where, (folder_ / (std::string("set") + ending)).string());
    if (std::string(ending) == ".bin") testing_support::problem_of(base::Code::E1008, [&] { dataset.largest_token(); });
  };
  const auto shorten = [](const fs::path& file) { fs::resize_file(file, 60); };
  const auto rewrite = [](const fs::path& file) {
    const auto size = fs::file_size(file);
    fs::resize_file(file, 0);
    fs::resize_file(file, size);
    fs::last_write_time(file, fs::file_time_type() - std::chrono::hours(1));
  };
  refused(".bin", shorten);
  refused(".idx", shorten);
  refused(".bin", rewrite);
  refused(".idx", rewrite);
}

TEST_F(IndexedDatasetTest, ElementsThatAreNoTokensAreRefused) {
  const auto refused = [&](TokenType type, const auto& value) {
    write({{1}}, type);
    base::write_file_atomically(folder_ / "set.bin",
                                std::string_view(reinterpret_cast<const char*>(&value), sizeof(value)));
    std::vector<int32_t> tokens(1);
    try {
      IndexedDataset(folder_ / "set").copy(0, tokens);
    } catch (const base::Error& error) {
      return error.code() == base::Code::E1102;
    }
    return false;
  };
  EXPECT_TRUE(refused(TokenType::i8, int8_t{-1}));
  EXPECT_TRUE(refused(TokenType::i32, int32_t{-7}));
  EXPECT_TRUE(refused(TokenType::i64, int64_t{1} << 40));
  EXPECT_TRUE(refused(TokenType::f32, 1.5F));
  EXPECT_TRUE(refused(TokenType::f64, std::nan("")));
}

TEST_F(IndexedDatasetTest, MissingFilesAreNamed) {
  write({{1}});
  fs::remove(folder_ / "set.bin");
  EXPECT_THROW(IndexedDataset(folder_ / "set"), base::Error);
  EXPECT_THROW(IndexedDataset(folder_ / "none"), base::Error);
}

TEST_F(IndexedDatasetTest, AWriterThatIsNotFinishedLeavesWhatWasThere) {
  write({{1, 2}});
  const std::string before = base::read_file(folder_ / "set.bin");
  {
    IndexedWriter writer(folder_ / "set", TokenType::u16);
    writer.add(std::vector<int32_t>{5, 6, 7});
  }
  EXPECT_EQ(base::read_file(folder_ / "set.bin"), before);
  EXPECT_EQ(documents_of(IndexedDataset(folder_ / "set")), (Documents{{1, 2}}));
  EXPECT_FALSE(fs::exists(folder_ / "set.bin.tmp"));
}

TEST_F(IndexedDatasetTest, TokensThatTheTypeLacksAreNotWritten) {
  IndexedWriter writer(folder_ / "set", TokenType::u16);
  EXPECT_THROW(writer.add(std::vector<int32_t>{65536}), base::Error);
  EXPECT_THROW(writer.add(std::vector<int32_t>{-1}), base::Error);
}

TEST_F(IndexedDatasetTest, AFolderThatCannotBeWrittenIsNamed) {
  try {
    IndexedWriter writer(folder_ / "no" / "set", TokenType::u16);
    FAIL() << "opened";
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E3001);
  }
}

TEST_F(IndexedDatasetTest, AnEmptyDatasetHasNoSequence) {
  const IndexedDataset dataset(write({}));
  EXPECT_EQ(dataset.sequences({}, 4), 0);
  EXPECT_EQ(dataset.index().documents(), 0);
}

// Documents of the same lengths, as the same text has in another tokenizer of bytes: both ends are alike.
TEST_F(IndexedDatasetTest, OtherTokensBetweenTheEndsAreAnotherFingerprint) {
  constexpr size_t kTokens = 1 << 18;
  std::vector<uint64_t> fingerprints;
  for (const char middle : {'a', 'b'}) {
    std::string idx(kIndexMagic);
    const auto add = [&idx](auto value) { idx.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
    add(kIndexVersion);
    add(TokenType::u8);
    add(uint64_t{1});
    add(uint64_t{2});
    add(static_cast<int32_t>(kTokens));
    for (const int64_t number : {0, 0, 1}) add(number);
    const std::string end(1 << 16, 'x');
    base::write_file_atomically(folder_ / "set.idx", idx);
    base::write_file_atomically(folder_ / "set.bin", end + std::string(kTokens - 2 * end.size(), middle) + end);
    fingerprints.push_back(IndexedDataset(folder_ / "set").fingerprint());
  }
  EXPECT_NE(fingerprints[0], fingerprints[1]);
}

}  // namespace
}  // namespace megacpp::data
