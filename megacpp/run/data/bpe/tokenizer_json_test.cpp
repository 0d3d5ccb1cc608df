// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/bpe/tokenizer_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "megacpp/run/data/bpe/byte_alphabet.h"
#include "tests/support/errors.h"

namespace megacpp::data::bpe {
namespace {

using base::Code;
using base::Json;

/// Bytes and the merge of a and b, id 256.
Json smallest_file() {
  TrainedBpe trained;
  for (int byte = 0; byte < 256; ++byte) trained.tokens.emplace_back(1, static_cast<char>(byte));
  trained.tokens.emplace_back("ab");
  trained.merges = {{'a', 'b', 256}};
  trained.special = {"<|endoftext|>"};
  return base::parse_json(write_bpe(trained), Code::E1111, "written");
}

BpeTokenizer tokenizer_of(const Json& file) { return BpeTokenizer(read_bpe(base::to_text(file), "t.json")); }

std::vector<int32_t> ids_by(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

/// The refusal of the smallest file with one change.
template <typename Change>
base::Problem refusal_after(Code code, const Change& change) {
  Json file = smallest_file();
  change(file);
  return testing_support::problem_of(code, [&] { tokenizer_of(file); });
}

TEST(TokenizerJsonTest, ReadsWhatItWrites) {
  const BpeTokenizer tokenizer = tokenizer_of(smallest_file());
  EXPECT_EQ(tokenizer.vocab_size(), 258);
  EXPECT_EQ(tokenizer.end_of_document(), 257);
  EXPECT_EQ(ids_by(tokenizer, "abc<|endoftext|>\xff"), (std::vector<int32_t>{256, 'c', 257, 0xff}));
  const std::vector<int32_t> outside = {258};
  EXPECT_EQ(testing_support::error_of([&] { tokenizer.decode(outside); }).code(), Code::E1102);
}

TEST(TokenizerJsonTest, TakesTheEndOfDocumentOfTheConfiguration) {
  const std::string text = base::to_text(smallest_file());
  EXPECT_EQ(read_bpe(text, "t", R"({"eos_token": "ab"})").end_of_document, 256);
  EXPECT_EQ(read_bpe(text, "t", R"({"eos_token": {"content": "ab"}})").end_of_document, 256);
  EXPECT_EQ(read_bpe(text, "t", R"({"eos_token": null})").end_of_document, 257);
  EXPECT_EQ(testing_support::error_of([&] { read_bpe(text, "t", "{"); }).code(), Code::E1111);
}

TEST(TokenizerJsonTest, FingerprintFollowsWhatDecidesIds) {
  const uint64_t before = tokenizer_of(smallest_file()).fingerprint();
  Json file = smallest_file();
  file["post_processor"] = {{"type", "ByteLevel"}};
  EXPECT_EQ(tokenizer_of(file).fingerprint(), before);
  file["model"]["merges"] = Json::array();
  EXPECT_NE(tokenizer_of(file).fingerprint(), before);
}

TEST(TokenizerJsonTest, RefusesTextThatIsCutOffAnywhere) {
  const std::string text = base::to_text(smallest_file());
  for (size_t size = 0; size + 1 < text.size(); size += 97)
    EXPECT_EQ(testing_support::error_of([&] { read_bpe(text.substr(0, size), "t.json"); }).code(), Code::E1111) << size;
}

TEST(TokenizerJsonTest, RefusesAlienJson) {
  for (const char* text :
       {"[]", "1", "{}", R"({"model": 1})", R"({"model": {"type": "BPE"}})", R"({"model_type": "llama"})"})
    EXPECT_TRUE(testing_support::error_of([&] { read_bpe(text, "t.json"); }).code() == Code::E1111 ||
                testing_support::error_of([&] { read_bpe(text, "t.json"); }).code() == Code::E1112)
        << text;
}

TEST(TokenizerJsonTest, RefusesIdsThatLie) {
  const auto vocab = [](Json& file) -> Json& { return file["model"]["vocab"]; };
  EXPECT_NE(refusal_after(Code::E1111, [&](Json& file) { vocab(file)["ab"] = 300; }).got.find("none has id 256"),
            std::string::npos);
  EXPECT_NE(refusal_after(Code::E1111, [&](Json& file) { vocab(file)["ab"] = 7; }).got.find("another token"),
            std::string::npos);
  for (const Json& id : {Json(-1), Json(int64_t{1} << 40), Json("256"), Json(1.5), Json(nullptr)})
    EXPECT_EQ(refusal_after(Code::E1111, [&](Json& file) { vocab(file)["ab"] = id; }).where, "t.json: model.vocab.ab");
  EXPECT_NE(refusal_after(Code::E1111, [&](Json& file) { file["added_tokens"][0]["id"] = 5; }).got.find("id 5"),
            std::string::npos);
  EXPECT_NE(refusal_after(Code::E1111, [&](Json& file) { vocab(file)["<|endoftext|>"] = 258; }).got.find("257"),
            std::string::npos);
}

TEST(TokenizerJsonTest, RefusesBrokenVocabularies) {
  const auto problem = refusal_after(Code::E1111, [](Json& file) {
    Json& vocab = file["model"]["vocab"];
    vocab["zz"] = vocab.at(std::string(char_of_byte(' ')));
    vocab.erase(std::string(char_of_byte(' ')));
  });
  EXPECT_NE(problem.got.find("byte 32"), std::string::npos);
  refusal_after(Code::E1111, [](Json& file) { file["model"]["vocab"] = Json::array(); });
  refusal_after(Code::E1111, [](Json& file) { file["model"].erase("vocab"); });
  refusal_after(Code::E1111, [](Json& file) { file["added_tokens"] = 1; });
  refusal_after(Code::E1111, [](Json& file) { file["added_tokens"][0]["content"] = ""; });
  refusal_after(Code::E1111, [](Json& file) { file["added_tokens"][0]["lstrip"] = "yes"; });
  refusal_after(Code::E1111, [](Json& file) { file["added_tokens"].push_back(file["added_tokens"][0]); });
}

TEST(TokenizerJsonTest, RefusesBrokenMerges) {
  EXPECT_EQ(refusal_after(Code::E1111, [](Json& file) { file["model"].erase("merges"); }).where,
            "t.json: model.merges");
  refusal_after(Code::E1111, [](Json& file) { file["model"]["merges"] = "a b"; });
  for (const Json& merge :
       {Json("ab"), Json("a b c"), Json("a zz"), Json("b a"), Json(1), Json::array({"a"}), Json::array({"a", 1})})
    EXPECT_EQ(refusal_after(Code::E1111, [&](Json& file) { file["model"]["merges"][0] = merge; }).where,
              "t.json: model.merges[0]");
}

TEST(TokenizerJsonTest, RefusesByNameWhatIsNotSupported) {
  const auto names = [](const std::string& word, const auto& change) {
    const base::Problem problem = refusal_after(Code::E1112, change);
    EXPECT_NE((problem.where + problem.got).find(word), std::string::npos) << problem.where << ": " << problem.got;
  };
  names("Lowercase", [](Json& file) { file["normalizer"] = {{"type", "Lowercase"}}; });
  names("Replace", [](Json& file) {
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Replace"}}}}};
  });
  names("Metaspace", [](Json& file) { file["pre_tokenizer"] = {{"type", "Metaspace"}}; });
  names("no ByteLevel", [](Json& file) { file["pre_tokenizer"] = nullptr; });
  names("MergedWithNext", [](Json& file) { file["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "MergedWithNext"; });
  names("behind ByteLevel", [](Json& file) { file["pre_tokenizer"]["pretokenizers"].push_back({{"type", "Digits"}}); });
  names("add_prefix_space", [](Json& file) { file["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; });
  names("WordPiece", [](Json& file) { file["model"]["type"] = "WordPiece"; });
  names("byte_fallback", [](Json& file) { file["model"]["byte_fallback"] = true; });
  names("dropout", [](Json& file) { file["model"]["dropout"] = 0.1; });
  names("</w>", [](Json& file) { file["model"]["end_of_word_suffix"] = "</w>"; });
}

TEST(TokenizerJsonTest, RefusesExpressionsThatCannotBeUsed) {
  EXPECT_NE(refusal_after(Code::E1113,
                          [](Json& file) { file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "("; })
                .where.find("pretokenizers[0].pattern"),
            std::string::npos);
  refusal_after(Code::E1111, [](Json& file) { file["pre_tokenizer"]["pretokenizers"][0].erase("pattern"); });
  refusal_after(Code::E1111, [](Json& file) { file["pre_tokenizer"]["pretokenizers"] = 1; });
  refusal_after(Code::E1111, [](Json& file) {
    Json& list = file["pre_tokenizer"]["pretokenizers"];
    const Json split = list[0];
    for (int i = 0; i < 100; ++i) list.insert(list.begin(), split);
  });
}

TEST(ByteAlphabetTest, StandsForEveryByteAndNothingElse) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(from_alphabet(to_alphabet(bytes)), bytes);
  EXPECT_EQ(char_of_byte(' '), "\u0120");
  for (const char* text : {" ", "\n", "\u0144", "\u4e00", "\xff"})
    EXPECT_FALSE(from_alphabet(text).has_value()) << text;
}

}  // namespace
}  // namespace megacpp::data::bpe
