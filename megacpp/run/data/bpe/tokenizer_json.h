// SPDX-License-Identifier: Apache-2.0
// Hugging Face's tokenizer.json, as far as it describes a byte-level BPE. What would change ids and is not supported is
// refused by name; the post-processor, decoder, truncation and padding are left out, since whole documents are encoded
// without special tokens around them.
#pragma once

#include <string>
#include <string_view>

#include "megacpp/run/data/bpe/bpe_tokenizer.h"

namespace megacpp::data::bpe {

/// E1111 where the text is broken or contradicts itself, E1112 for what is not supported, E1113 for expressions that
/// cannot be used. `name` is the file, for messages. `config`: the text of the tokenizer_config.json beside it, which
/// names the token between documents; may be empty.
BpeModel read_bpe(std::string_view text, const std::string& name, std::string_view config = {});

/// What train_bpe made, as a tokenizer.json: words by Llama 3's expression.
struct TrainedBpe {
  std::vector<std::string> tokens;  // bytes by id: 256 single bytes, merges in their order
  std::vector<Merge> merges;
  std::vector<std::string> special;  // their ids follow
};
std::string write_bpe(const TrainedBpe& trained);

}  // namespace megacpp::data::bpe
