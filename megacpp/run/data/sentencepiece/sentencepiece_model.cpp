// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/data/sentencepiece/sentencepiece_model.h"

#define XXH_INLINE_ALL
#include <sentencepiece_processor.h>
#include <xxhash.h>

#include "megacpp/core/base/error.h"
#include "megacpp/core/base/file.h"
#include "megacpp/run/data/token_range.h"

namespace megacpp::data::sentencepiece {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& file) : name_(file.string()) {
    const std::string model = base::read_file(file);
    const auto status = processor_.LoadFromSerializedProto(model);
    MEGACPP_REQUIRE(status.ok() && processor_.GetPieceSize() > 0, E1111,
                    {.where = name_,
                     .got = "SentencePiece says: " + status.ToString(),
                     .wanted = "a SentencePiece model",
                     .next = "fetch the file again"});
    fingerprint_ = XXH64(model.data(), model.size(), 0);
  }

  void encode(std::string_view bytes, std::vector<int32_t>& out) const override {
    std::vector<int> ids;
    check(processor_.Encode({bytes.data(), bytes.size()}, &ids), "encode");
    out.insert(out.end(), ids.begin(), ids.end());
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<int> checked;
    for (const int32_t id : ids) checked.push_back(checked_token(*this, id));
    std::string text;
    check(processor_.Decode(checked, &text), "decode");
    return text;
  }
  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::optional<int32_t> end_of_document() const override {
    return processor_.eos_id() >= 0 ? std::optional<int32_t>(processor_.eos_id()) : std::nullopt;
  }
  const std::string& name() const override { return name_; }
  uint64_t fingerprint() const override { return fingerprint_; }

 private:
  template <typename Status>
  void check(const Status& status, const char* action) const {
    MEGACPP_REQUIRE(status.ok(), E1111,
                    {.where = name_,
                     .got = std::string("cannot ") + action + ": " + status.ToString(),
                     .wanted = "a model that takes any text",
                     .next = "fetch the file again"});
  }

  std::string name_;
  ::sentencepiece::SentencePieceProcessor processor_;
  uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<const Tokenizer> load_model(const std::filesystem::path& file) {
  return std::make_unique<SentencePieceTokenizer>(file);
}

}  // namespace megacpp::data::sentencepiece
