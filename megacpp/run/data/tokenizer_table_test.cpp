// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "megacpp/core/base/error.h"
#include "megacpp/run/data/tokenizer_def.h"
#include "tests/support/errors.h"

namespace megacpp::data {
namespace {

namespace fs = std::filesystem;

std::string every_byte() {
  std::string bytes;
  for (int value = 0; value < 256; ++value) bytes.push_back(static_cast<char>(value));
  return bytes + bytes;
}

TEST(TokenizerTableTest, EveryRecordIsWhole) {
  std::set<std::string_view> names;
  for (const TokenizerDef& kind : all_tokenizers()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name << " twice";
    EXPECT_FALSE(kind.doc.empty()) << kind.name;
    EXPECT_NE(kind.load, nullptr) << kind.name;
    EXPECT_EQ(kind.file_name.empty(), kind.recognises == nullptr) << kind.name;
    EXPECT_FALSE(kind.recognises != nullptr && kind.recognises("")) << kind.name;
  }
}

TEST(ByteTokenizerTest, GivesBytesAsIdsAndBack) {
  const auto bytes = load_tokenizer("bytes");
  std::vector<int32_t> ids = {7};
  bytes->encode(every_byte(), ids);
  ASSERT_EQ(ids.size(), 513u);
  EXPECT_EQ(ids[0], 7) << "ids are appended";
  EXPECT_EQ(ids[256], 255);
  EXPECT_EQ(bytes->decode(std::span(ids).subspan(1)), every_byte());
  EXPECT_EQ(bytes->vocab_size(), 256);
  EXPECT_EQ(bytes->name(), "bytes");
  EXPECT_FALSE(bytes->end_of_document().has_value());
  EXPECT_EQ(bytes->fingerprint(), load_tokenizer("bytes")->fingerprint());
}

TEST(ByteTokenizerTest, RefusesIdsOutsideTheVocabulary) {
  const auto bytes = load_tokenizer("bytes");
  for (const int32_t id : {-1, 256})
    EXPECT_EQ(testing_support::error_of([&] { bytes->decode(std::span(&id, 1)); }).code(), base::Code::E1102) << id;
}

TEST(LoadTokenizerTest, RefusesWhatIsNoTokenizer) {
  const fs::path folder = fs::path(testing::TempDir()) / "no-tokenizer";
  fs::create_directories(folder);
  std::ofstream(folder / "empty");
  std::ofstream(folder / "text") << "hello";
  const auto code_of_source = [](const fs::path& source) {
    return testing_support::error_of([&] { load_tokenizer(source.string()); }).code();
  };
  EXPECT_EQ(code_of_source(folder / "missing"), base::Code::E1008);
  EXPECT_EQ(code_of_source(folder), base::Code::E1111);
  EXPECT_EQ(code_of_source(folder / "empty"), base::Code::E1111);
  EXPECT_EQ(code_of_source(folder / "text"), base::Code::E1111);
}

}  // namespace
}  // namespace megacpp::data
