// SPDX-License-Identifier: Apache-2.0
// Ids against those of the Python package: tests/golden/make_tokenizers.py wrote the files.
#include "megacpp/run/data/sentencepiece/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/file.h"
#include "megacpp/core/base/json.h"
#include "tests/support/errors.h"

namespace megacpp::data::sentencepiece {
namespace {

const std::filesystem::path kModelFolder = std::filesystem::path(MEGACPP_SOURCE_DIR) / "tests/golden/sentencepiece";

TEST(SentencePieceTest, GivesTheIdsOfThePythonPackage) {
  const auto tokenizer = load_tokenizer(kModelFolder.string());
  const base::Json file = base::parse_json(base::read_file(kModelFolder / "ids.json"), base::Code::E1303, "ids.json");
  EXPECT_GT(file.at("cases").size(), 10u);
  for (const base::Json& golden : file.at("cases")) {
    std::vector<int32_t> ids;
    tokenizer->encode(golden.at("text").get<std::string>(), ids);
    EXPECT_EQ(ids, golden.at("ids").get<std::vector<int32_t>>()) << golden.at("text");
    EXPECT_EQ(tokenizer->decode(ids), golden.at("decoded").get<std::string>());
  }
  EXPECT_EQ(tokenizer->vocab_size(), file.at("vocabulary").get<int64_t>());
  EXPECT_EQ(tokenizer->end_of_document(), 2);
  const std::vector<int32_t> outside = {static_cast<int32_t>(tokenizer->vocab_size())};
  EXPECT_EQ(testing_support::error_of([&] { tokenizer->decode(outside); }).code(), base::Code::E1102);
}

TEST(SentencePieceTest, TakesBytesThatAreNoText) {
  const auto tokenizer = load_tokenizer(kModelFolder.string());
  std::string all;
  for (int value = 0; value < 256; ++value) all.push_back(static_cast<char>(value));
  for (const std::string& bytes :
       {std::string("the \xff the"), std::string("the \xc3( \xed\xa0\x80 the"), "the" + all}) {
    std::vector<int32_t> ids;
    tokenizer->encode(bytes, ids);
    EXPECT_NE(tokenizer->decode(ids).find("the"), std::string::npos) << "what is text around them stays";
  }
}

TEST(SentencePieceTest, RefusesAModelThatIsCutOff) {
  const std::string model = base::read_file(kModelFolder / "tokenizer.model");
  const std::filesystem::path broken = std::filesystem::path(testing::TempDir()) / "broken.model";
  std::ofstream(broken, std::ios::binary) << model.substr(0, model.size() / 2);
  EXPECT_EQ(testing_support::error_of([&] { load_tokenizer(broken.string()); }).code(), base::Code::E1111);
}

}  // namespace
}  // namespace megacpp::data::sentencepiece
