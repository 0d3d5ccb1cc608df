// SPDX-License-Identifier: Apache-2.0
// Each byte is the id of its value.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "megacpp/run/data/text_corpus.h"
#include "megacpp/run/data/token_range.h"
#include "megacpp/run/data/tokenizer_def.h"

namespace megacpp::data {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  void encode(std::string_view bytes, std::vector<int32_t>& out) const override {
    const size_t begin = out.size();
    out.resize(begin + bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) out[begin + i] = static_cast<uint8_t>(bytes[i]);
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string bytes(ids.size(), '\0');
    for (size_t i = 0; i < ids.size(); ++i) bytes[i] = static_cast<char>(checked_token(*this, ids[i]));
    return bytes;
  }
  int64_t vocab_size() const override { return kByteVocabulary; }
  std::optional<int32_t> end_of_document() const override { return std::nullopt; }
  const std::string& name() const override { return name_; }
  uint64_t fingerprint() const override { return XXH64(name_.data(), name_.size(), 0); }

 private:
  std::string name_ = "bytes";
};

}  // namespace

TokenizerDef bytes_tokenizer() {
  return {.name = "bytes",
          .file_name = "",
          .doc = "each byte is a token",
          .recognises = nullptr,
          .load = [](const std::filesystem::path&) -> std::unique_ptr<const Tokenizer> {
            return std::make_unique<ByteTokenizer>();
          }};
}

}  // namespace megacpp::data
