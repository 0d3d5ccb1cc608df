// SPDX-License-Identifier: Apache-2.0
// SentencePiece models through its own library.
#pragma once

#include <filesystem>
#include <memory>

#include "megacpp/run/data/tokenizer.h"

namespace megacpp::data::sentencepiece {

/// E1111 where the library refuses the file. What its normalization changes, and bytes that are no UTF-8, do not come
/// back from tokens as they were.
std::unique_ptr<const Tokenizer> load_model(const std::filesystem::path& file);

}  // namespace megacpp::data::sentencepiece
