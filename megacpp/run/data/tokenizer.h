// SPDX-License-Identifier: Apache-2.0
// Bytes to token ids and back. A tokenizer is immutable once loaded: all methods may be called by any number of threads
// at once. Each kind is one record (tokenizer_def.h), listed in tokenizer_list.inc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace megacpp::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the ids of a whole document to `out`. Any bytes are taken, also those that are no UTF-8.
  virtual void encode(std::string_view bytes, std::vector<int32_t>& out) const = 0;
  /// The bytes of the ids one after another. E1102 for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  /// Ids are 0 to vocab_size() - 1.
  virtual int64_t vocab_size() const = 0;
  /// The id that stands between documents, where the vocabulary has one.
  virtual std::optional<int32_t> end_of_document() const = 0;
  /// "bytes", or the file it came from.
  virtual const std::string& name() const = 0;
  /// xxHash64 of what decides ids: equal fingerprints give equal ids for any bytes.
  virtual uint64_t fingerprint() const = 0;
};

/// "bytes", or a file or folder of any kind in tokenizer_list.inc, told apart by its content. E1008 for a file that
/// cannot be read, E1111 for one that is of no kind or broken, E1112 for one that needs what is not supported.
std::unique_ptr<const Tokenizer> load_tokenizer(const std::string& source);

}  // namespace megacpp::data
