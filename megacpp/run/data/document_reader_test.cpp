// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/document_reader.h"

#include <gtest/gtest.h>

#include <optional>

#include "megacpp/core/base/file.h"
#include "megacpp/run/data/text_corpus.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace megacpp::data {
namespace {

/// A document is one token: how many bytes it has.
class SizeTokenizer : public Tokenizer {
 public:
  void encode(std::string_view bytes, std::vector<int32_t>& out) const override {
    out.push_back(static_cast<int32_t>(bytes.size()));
  }
  std::string decode(std::span<const int32_t>) const override { return ""; }
  int64_t vocab_size() const override { return int64_t{1} << 31; }
  std::optional<int32_t> end_of_document() const override { return std::nullopt; }
  const std::string& name() const override { return name_; }
  uint64_t fingerprint() const override { return 0; }

 private:
  std::string name_ = "size";
};

using Documents = std::vector<std::vector<int32_t>>;

Documents all_of(DocumentReader& reader) {
  Documents documents;
  for (std::vector<int32_t> tokens; reader.next(tokens);) documents.push_back(tokens);
  return documents;
}

class DocumentReaderTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    base::write_file_atomically(folder_ / name, text);
  }
  const std::vector<std::string> sources() const { return {folder_.path().string()}; }

  const testing_support::TemporaryFolder folder_;
};

TEST_F(DocumentReaderTest, FilesAreDocumentsInTheirOrder) {
  write("b.txt", "bb");
  write("a.txt", "a");
  write("empty.txt", "");
  const auto bytes = load_tokenizer("bytes");
  DocumentReader reader(sources(), *bytes);
  EXPECT_EQ(reader.total_bytes(), 3);
  EXPECT_EQ(reader.bytes(), 0);
  EXPECT_EQ(all_of(reader), (Documents{{'a'}, {'b', 'b'}}));
  EXPECT_EQ(reader.bytes(), 3);
  std::vector<int32_t> kept = {7};
  EXPECT_FALSE(reader.next(kept));
  EXPECT_EQ(kept, (std::vector<int32_t>{7}));
}

TEST_F(DocumentReaderTest, NothingIsCutOff) {
  const int64_t large = kMaxCorpusBytes + 5;  // more than a training text in memory may have
  write("a.txt", "");
  std::filesystem::resize_file(folder_ / "a.txt", static_cast<uintmax_t>(large));  // a hole: no byte on the disk
  write("b.txt", "bb");
  const SizeTokenizer tokenizer;
  DocumentReader reader(sources(), tokenizer);
  EXPECT_EQ(all_of(reader), (Documents{{static_cast<int32_t>(large)}, {2}}));
  EXPECT_EQ(reader.bytes(), large + 2);
}

TEST_F(DocumentReaderTest, SourcesWithoutFilesAreRefused) {
  const SizeTokenizer tokenizer;
  testing_support::problem_of(base::Code::E1101, [&] { DocumentReader(sources(), tokenizer); });
}

}  // namespace
}  // namespace megacpp::data
