// SPDX-License-Identifier: Apache-2.0
// A dataset in Megatron's format (indexed_format.h), mapped and never copied: it may be larger than memory. Opening
// checks all that the index says; tokens are checked where they are read. As a source its documents stand one behind
// another and are cut to sequences; every epoch takes all of them in an order of its own.
#pragma once

#include <filesystem>
#include <string>

#include "megacpp/core/base/file.h"
#include "megacpp/run/data/indexed_format.h"
#include "megacpp/run/data/source.h"

namespace megacpp::data {

/// An index, read in place. E1008 with what is wrong where it is no index, or contradicts itself or the .bin's size.
class TokenIndex {
 public:
  /// `bytes` must outlive the object; `name` stands in errors.
  TokenIndex(std::span<const std::byte> bytes, int64_t bin_bytes, const std::string& name);

  const TokenTypeInfo& type() const { return type_; }
  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return bounds_ - 1; }
  int64_t tokens() const { return tokens_; }
  int64_t empty_documents() const { return empty_documents_; }
  /// The token a document begins at, or all tokens for the document behind the last.
  int64_t begin_of(int64_t document) const;
  /// The first document that begins behind a token.
  int64_t document_behind(int64_t token) const;

 private:
  int32_t length(int64_t sequence) const;
  int64_t offset(int64_t sequence) const;
  int64_t bound(int64_t index) const;
  void read_header(const std::string& name);
  void check_sequences(int64_t bin_bytes, const std::string& name);
  void check_documents(const std::string& name);

  std::span<const std::byte> bytes_;
  TokenTypeInfo type_ = {};
  int64_t sequences_ = 0, bounds_ = 0, tokens_ = 0, empty_documents_ = 0;
};

class IndexedDataset : public TokenSource {
 public:
  /// `prefix` is the path without .bin and .idx; either may be given too. E1008 when a file cannot be read.
  explicit IndexedDataset(const std::filesystem::path& prefix);

  int64_t sequences(const Draw& draw, int64_t length) const override;
  void read(const Draw& draw, int64_t sample, std::span<int32_t> tokens, std::span<int32_t> segments) const override;
  int64_t vocabulary() const override { return 0; }
  uint64_t fingerprint() const override { return fingerprint_; }
  std::vector<SourcePart> parts() const override { return {{.name = name_, .fingerprint = fingerprint_}}; }
  std::string describe() const override;

  const TokenIndex& index() const { return index_; }
  const std::string& name() const { return name_; }
  /// Tokens `first` onwards. E1102 for one that is no number from 0 to 2^31 - 1; E1008 where the file has changed.
  void copy(int64_t first, std::span<int32_t> tokens) const;
  /// Reads everything.
  int32_t largest_token() const;

 private:
  std::string name_;
  base::MappedFile idx_, bin_;
  TokenIndex index_;
  uint64_t fingerprint_;
};

/// The path without .bin or .idx.
std::filesystem::path dataset_prefix(const std::filesystem::path& path);

}  // namespace megacpp::data
