// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/tokenize.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/run/data/indexed_dataset.h"
#include "megacpp/run/data/indexed_writer.h"
#include "tests/support/errors.h"

namespace megacpp::data {
namespace {

namespace fs = std::filesystem;

class TokenizeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("megacpp_tokenize_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "text");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    base::write_file_atomically(folder_ / "text" / name, text);
  }
  TokenizeOptions options(const std::string& out) const {
    return {.sources = {(folder_ / "text").string()}, .out = folder_ / out};
  }
  std::string bytes_of(const std::string& out) const {
    return base::read_file(folder_ / (out + ".idx")) + base::read_file(folder_ / (out + ".bin"));
  }
  // Lines of uneven length, so that units never begin where lines do.
  void write_lines(int count) const {
    std::string lines;
    for (int i = 0; i < count; ++i)
      lines += "{\"id\": " + std::to_string(i) + ", \"text\": \"" + std::string(static_cast<size_t>(i % 37), 'x') +
               "\\u00e9" + std::to_string(i) + "\"}\n";
    write("a.jsonl", lines);
  }

  fs::path folder_;
  std::unique_ptr<const Tokenizer> bytes_ = load_tokenizer("bytes");
};

TEST_F(TokenizeTest, FilesAndLinesBecomeDocumentsInOrder) {
  write("b.txt", "plain \xff text\n");
  write("a.jsonl", "{\"text\": \"one\"}\n\n{\"text\": \"\"}\r\n{\"n\": 1, \"text\": \"two\\n\"}");
  write("empty.txt", "");
  const TokenizeProgress done = tokenize(*bytes_, options("out"));
  EXPECT_TRUE(done.finished);
  EXPECT_EQ(done.documents, 3);
  EXPECT_EQ(done.text_bytes, done.total_bytes);
  const IndexedDataset dataset(folder_ / "out");
  std::vector<int32_t> tokens(static_cast<size_t>(dataset.index().tokens()));
  dataset.copy(0, tokens);
  EXPECT_EQ(bytes_->decode(tokens), "onetwo\nplain \xff text\n");
  EXPECT_EQ(dataset.index().begin_of(2), 7);
}

TEST_F(TokenizeTest, TheDatasetDoesNotDependOnThreadsOrUnits) {
  write_lines(500);
  write("b.txt", "the end");
  tokenize(*bytes_, options("one"));
  for (const int64_t unit : {1, 7, 100, 1000})
    for (const int threads : {1, 3}) {
      TokenizeOptions other = options("other");
      other.threads = threads;
      other.unit_bytes = unit;
      EXPECT_EQ(tokenize(*bytes_, other).documents, 501);
      EXPECT_EQ(bytes_of("other"), bytes_of("one")) << unit << " bytes, " << threads << " threads";
    }
}

TEST_F(TokenizeTest, AStoppedRunGoesOnWhereItWas) {
  write_lines(500);
  tokenize(*bytes_, options("whole"));
  TokenizeOptions some = options("some");
  some.unit_bytes = 200;
  int calls = 0;
  some.should_stop = [&] { return ++calls == 3; };
  const TokenizeProgress first = tokenize(*bytes_, some);
  EXPECT_FALSE(first.finished);
  EXPECT_FALSE(fs::exists(folder_ / "some.idx"));
  some.should_stop = {};
  const TokenizeProgress second = tokenize(*bytes_, some);
  EXPECT_EQ(second.resumed_bytes, first.text_bytes);
  EXPECT_TRUE(second.finished);
  EXPECT_EQ(bytes_of("some"), bytes_of("whole"));
  for (const char* ending : {".bin.tmp", ".lengths.tmp", ".tokenize"})
    EXPECT_FALSE(fs::exists(folder_ / (std::string("some") + ending))) << ending;
}

// A process that is killed has written beyond its last note, or not all of what came after.
TEST_F(TokenizeTest, WhatAKilledRunWroteBehindItsNoteIsCutOff) {
  write_lines(500);
  tokenize(*bytes_, options("whole"));
  TokenizeOptions some = options("some");
  some.unit_bytes = 200;
  int calls = 0;
  some.should_stop = [&] { return ++calls == 3; };
  tokenize(*bytes_, some);
  some.should_stop = {};
  for (const char* ending : {".bin.tmp", ".lengths.tmp"})
    std::ofstream(folder_ / (std::string("some") + ending), std::ios::app | std::ios::binary) << "torn";
  EXPECT_GT(tokenize(*bytes_, some).resumed_bytes, 0);
  EXPECT_EQ(bytes_of("some"), bytes_of("whole"));
}

TEST_F(TokenizeTest, ANoteOfOtherTextOrWithoutItsPartsIsNotUsed) {
  write_lines(500);
  TokenizeOptions some = options("some");
  some.unit_bytes = 200;
  some.should_stop = [] { return true; };
  EXPECT_FALSE(tokenize(*bytes_, some).finished);
  some.should_stop = {};
  fs::resize_file(folder_ / "some.bin.tmp", 3);
  EXPECT_EQ(tokenize(*bytes_, some).resumed_bytes, 0);
  some.should_stop = [] { return true; };
  EXPECT_FALSE(tokenize(*bytes_, some).finished);
  some.should_stop = {};
  write_lines(400);
  EXPECT_EQ(tokenize(*bytes_, some).resumed_bytes, 0);
  tokenize(*bytes_, options("whole"));
  EXPECT_EQ(bytes_of("some"), bytes_of("whole"));
}

TEST_F(TokenizeTest, BadLinesAreNamed) {
  for (const char* line : {"{\"text\": 3}", "{\"body\": \"x\"}", "{\"text\": \"x\"", "[1]", "\xff",
                           "{\"text\": \"a\xff\"}", "{\"text\": \"\\ud800\"}"}) {
    write("a.jsonl", std::string("{\"text\": \"good\"}\n") + line + "\n");
    try {
      tokenize(*bytes_, options("out"));
      ADD_FAILURE() << line;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::Code::E1008);
      EXPECT_NE(error.problem().where.find("a.jsonl:2"), std::string::npos) << error.problem().where;
    }
    EXPECT_FALSE(fs::exists(folder_ / "out.idx"));
  }
}

TEST_F(TokenizeTest, TextThatChangesWhileItIsReadIsRefusedAndNothingStays) {
  const auto refused = [&](const std::function<void()>& change) {
    write_lines(500);
    TokenizeOptions some = options("out");
    some.unit_bytes = 200;
    some.on_progress = [&, done = false](const TokenizeProgress&) mutable {
      if (!std::exchange(done, true)) change();
    };
    testing_support::problem_of(base::Code::E1008, [&] { tokenize(*bytes_, some); });
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "the text alone";
  };
  const fs::path file = folder_ / "text" / "a.jsonl";
  refused([&] { fs::resize_file(file, 2000); });
  refused([&] { fs::resize_file(file, 0); });
  refused([&] { std::ofstream(file, std::ios::app) << "{\"text\": \"one more\"}\n"; });
}

// A document that is one file ends with it, wherever that is shortened.
TEST_F(TokenizeTest, ADocumentThatIsShortenedWhileItIsEncodedIsRefused) {
  class ShorteningTokenizer : public Tokenizer {
   public:
    ShorteningTokenizer(const Tokenizer& inner, fs::path file) : inner_(inner), file_(std::move(file)) {}
    int64_t vocab_size() const override { return inner_.vocab_size(); }
    std::optional<int32_t> end_of_document() const override { return inner_.end_of_document(); }
    const std::string& name() const override { return inner_.name(); }
    uint64_t fingerprint() const override { return inner_.fingerprint(); }
    void encode(std::string_view text, std::vector<int32_t>& tokens) const override {
      fs::resize_file(file_, 10);
      inner_.encode(text, tokens);
    }
    std::string decode(std::span<const int32_t> tokens) const override { return inner_.decode(tokens); }

   private:
    const Tokenizer& inner_;
    const fs::path file_;
  };
  write("a.txt", std::string(100'000, 'x'));
  const fs::path file = folder_ / "text" / "a.txt";
  const base::Problem problem = testing_support::problem_of(
      base::Code::E1008, [&] { tokenize(ShorteningTokenizer(*bytes_, file), options("out")); });
  EXPECT_EQ(problem.where, file.string());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "the text alone";
}

TEST_F(TokenizeTest, AFailingCallLeavesOnlyWhatTheNextOneGoesOnFrom) {
  write("a.jsonl", "{\"text\": \"good\"}\n[]\n");
  TokenizeOptions some = options("out");
  testing_support::problem_of(base::Code::E1008, [&] { tokenize(*bytes_, some); });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "the text alone";
  write_lines(500);
  some.unit_bytes = 200;
  some.should_stop = [] { return true; };
  EXPECT_FALSE(tokenize(*bytes_, some).finished);
  EXPECT_TRUE(fs::exists(folder_ / "out.tokenize"));
  write("a.jsonl", "[]\n");
  testing_support::problem_of(base::Code::E1008, [&] { tokenize(*bytes_, some); });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "the text alone";
}

TEST_F(TokenizeTest, TextWithoutADocumentIsRefused) {
  write("a.jsonl", "\n\n{\"text\": \"\"}\n");
  try {
    tokenize(*bytes_, options("out"));
    ADD_FAILURE();
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::Code::E1101);
  }
}

TEST_F(TokenizeTest, ADatasetThatIsThereIsNotReplaced) {
  write("a.txt", "text");
  require_new_dataset(folder_ / "out");
  tokenize(*bytes_, options("out"));
  testing_support::problem_of(base::Code::E1007, [&] { require_new_dataset(folder_ / "out"); });
  fs::remove(folder_ / "out.idx");
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1007, [&] { require_new_dataset(folder_ / "out"); });
  EXPECT_EQ(problem.got, (folder_ / "out.bin is there already").string());
  base::write_file_atomically(folder_ / "out.lengths.tmp", "");  // of a call that was killed before it wrote the index
  require_new_dataset(folder_ / "out");
}

TEST_F(TokenizeTest, TwoCallsOnOneDatasetAreNotMixed) {
  write_lines(500);
  tokenize(*bytes_, options("whole"));
  TokenizeOptions one = options("out");
  one.unit_bytes = 200;
  int calls = 0;
  one.on_progress = [&](const TokenizeProgress&) {
    if (++calls > 1) return;
    const base::Problem problem =
        testing_support::problem_of(base::Code::E3001, [&] { tokenize(*bytes_, options("out")); });
    EXPECT_EQ(problem.got, "another process that writes this dataset");
  };
  EXPECT_TRUE(tokenize(*bytes_, one).finished);
  EXPECT_GT(calls, 1);
  EXPECT_EQ(bytes_of("out"), bytes_of("whole"));
  EXPECT_TRUE(tokenize(*bytes_, options("out")).finished);  // the lock is gone with the call
}

TEST_F(TokenizeTest, ADocumentThatItsIndexCannotCountIsRefused) {
  EXPECT_EQ(document_length(INT32_MAX, "a.txt"), INT32_MAX);
  const base::Problem problem =
      testing_support::problem_of(base::Code::E1008, [] { document_length(size_t{INT32_MAX} + 1, "a.txt"); });
  EXPECT_EQ(problem.where, "a.txt");
  EXPECT_EQ(problem.got, "a document of 2147483648 tokens");
}

}  // namespace
}  // namespace megacpp::data
