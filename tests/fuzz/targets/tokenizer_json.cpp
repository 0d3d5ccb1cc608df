// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.h"
#include "tests/fuzz/tokenizer_check.h"

namespace megacpp::fuzz {
namespace {

void read_tokenizer_text(Bytes input) { read_tokenizer_json(as_text(input)); }

}  // namespace

Target tokenizer_json_target() {
  return {
      .name = "tokenizer_json", .subject = "tokenizer.json files as text", .weight = 10, .run = read_tokenizer_text};
}

}  // namespace megacpp::fuzz
