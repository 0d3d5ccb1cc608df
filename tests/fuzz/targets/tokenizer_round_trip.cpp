// SPDX-License-Identifier: Apache-2.0
// Any bytes come back from their tokens.
#include <array>

#include "megacpp/run/data/tokenizer.h"
#include "tests/fuzz/oracle.h"
#include "tests/fuzz/target.h"

namespace megacpp::fuzz {
namespace {

void encode_and_decode(Bytes input) {
  static const std::string kFolder = MEGACPP_SOURCE_DIR "/tests/golden/tokenizers/";
  static const std::array kTokenizers = {
      data::load_tokenizer("bytes"), data::load_tokenizer(kFolder + "gpt2"), data::load_tokenizer(kFolder + "llama3"),
      data::load_tokenizer(kFolder + "o200k"), data::load_tokenizer(kFolder + "sequence")};
  for (const auto& tokenizer : kTokenizers) {
    std::vector<int32_t> ids;
    tokenizer->encode(as_text(input), ids);
    require(tokenizer->decode(ids) == as_text(input), "bytes come back from the tokens of " + tokenizer->name());
  }
}

}  // namespace

Target tokenizer_round_trip_target() {
  return {
      .name = "tokenizer_round_trip", .subject = "bytes to tokens and back", .weight = 100, .run = encode_and_decode};
}

}  // namespace megacpp::fuzz
