// SPDX-License-Identifier: Apache-2.0
// Writes a dataset in Megatron's format (indexed_format.h), document by document. Tokens go to PATH.bin.tmp and lengths
// to PATH.lengths.tmp at once, so neither need fit into memory before finish(), which syncs and renames into place, the
// index last: a dataset that has an index is whole. Where it is not finished, nothing that was there before has
// changed. E3001 when writing fails, with the system's reason.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "megacpp/run/data/indexed_format.h"

namespace megacpp::data {

/// Lengths of documents that one index of one sequence per document has.
std::vector<std::byte> index_bytes(TokenType type, std::span<const int32_t> lengths);

/// The length of a document as an index has it: 32 bits with a sign. E1008 for one that is longer, with `where` it is.
int32_t document_length(size_t tokens, const std::string& where);

/// How far the parts of an unfinished dataset are known to be on disk.
struct WrittenParts {
  int64_t bin_bytes = 0;
  int64_t documents = 0;
};

class IndexedWriter {
 public:
  /// What an earlier writer had written beyond `from` is cut off. Without it parts begin empty.
  IndexedWriter(std::filesystem::path prefix, TokenType type, const WrittenParts& from = {});
  /// Removes the parts of a dataset that was not finished, unless keep_parts() was called.
  ~IndexedWriter();
  IndexedWriter(const IndexedWriter&) = delete;
  IndexedWriter& operator=(const IndexedWriter&) = delete;

  /// One document of one sequence. E1102 for a token that the type cannot hold.
  void add(std::span<const int32_t> document);
  /// Documents that another writer of the same type wrote, as its bytes.
  void append(std::span<const std::byte> tokens, std::span<const int32_t> lengths);
  /// Syncs the parts: what a later writer may go on from, even after a crash.
  WrittenParts sync();
  void keep_parts() { keeps_parts_ = true; }
  void finish();

 private:
  /// A file that grows; E3001 with the system's reason where it cannot.
  class Part {
   public:
    Part(std::filesystem::path path, int64_t bytes);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    void append(std::span<const std::byte> bytes);
    void sync();
    void close();
    int64_t bytes() const { return bytes_; }
    const std::filesystem::path& path() const { return path_; }

   private:
    std::filesystem::path path_;
    int64_t bytes_;
    int file_ = -1;  // descriptor
  };

  std::filesystem::path prefix_;
  TokenTypeInfo type_;
  std::vector<std::byte> encoded_;
  Part tokens_, lengths_;
  bool keeps_parts_ = false;
};

/// Tokens as elements of a type. E1102 for one that it cannot hold.
void encode_tokens(TokenType type, std::span<const int32_t> tokens, std::vector<std::byte>& out);

}  // namespace megacpp::data
