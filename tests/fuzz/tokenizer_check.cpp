// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/tokenizer_check.h"

#include "megacpp/run/data/bpe/tokenizer_json.h"
#include "tests/fuzz/oracle.h"

namespace megacpp::fuzz {
namespace {

using data::bpe::BpeModel;

constexpr std::string_view kSample =
    "int main() {\n  return 42;  // it's  \xe2\x82\xac caf\xc3\xa9 e\xcc\x81 "
    "\xf0\x9f\x98\x80\n}\xff\xc3<|end|>aaaaaabababab\r\n\r\n";

/// Whether the file asks for text to come back as it was.
bool is_lossless(const BpeModel& model, std::string_view text) {
  bool strips = false;
  for (const data::bpe::AddedToken& token : model.added) strips |= token.lstrip || token.rstrip;
  return !model.nfc && !strips && text.find("Removed") == std::string_view::npos;
}

}  // namespace

void read_tokenizer_json(std::string_view text) {
  BpeModel model = data::bpe::read_bpe(text, "tokenizer.json");
  const bool lossless = is_lossless(model, text);
  const data::bpe::BpeTokenizer tokenizer(std::move(model));
  std::vector<int32_t> ids, again;
  tokenizer.encode(kSample, ids);
  tokenizer.encode(kSample, again);
  require(ids == again, "known words have the same tokens as new ones");
  for (const int32_t id : ids) require(id >= 0 && id < tokenizer.vocab_size(), "ids are within the vocabulary");
  const std::string decoded = tokenizer.decode(ids);
  require(!lossless || decoded == kSample, "bytes come back from their tokens");
}

std::string small_tokenizer_json() {
  data::bpe::TrainedBpe trained;
  for (int byte = 0; byte < 256; ++byte) trained.tokens.emplace_back(1, static_cast<char>(byte));
  trained.tokens.insert(trained.tokens.end(), {"aa", "ab", "abab", " r", " re"});
  trained.merges = {{'a', 'a', 256}, {'a', 'b', 257}, {257, 257, 258}, {' ', 'r', 259}, {259, 'e', 260}};
  trained.special = {"<|endoftext|>", "<|end|>"};
  return write_bpe(trained);
}

}  // namespace megacpp::fuzz
