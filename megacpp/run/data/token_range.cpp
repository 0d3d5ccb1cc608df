// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/token_range.h"

#include "megacpp/core/base/error.h"

namespace megacpp::data {

int32_t checked_token(const Tokenizer& tokenizer, int32_t id) {
  MEGACPP_REQUIRE(id >= 0 && id < tokenizer.vocab_size(), E1102,
                  {.where = "decoding with the tokenizer " + tokenizer.name(),
                   .got = "token " + std::to_string(id),
                   .wanted = "0 to " + std::to_string(tokenizer.vocab_size() - 1),
                   .next = "decode with the tokenizer that made the tokens"});
  return id;
}

}  // namespace megacpp::data
