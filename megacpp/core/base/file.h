// SPDX-License-Identifier: Apache-2.0
// Whole files: read as text, mapped read-only, or written so that a reader sees either the old file or the new one,
// never a part. A file that cannot be read is E1008, one that cannot be written E3001, with the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "megacpp/core/base/guarded_mapping.h"

namespace megacpp::base {

/// The content of a file.
std::string read_file(const std::filesystem::path& path);

/// Writes the parts one after another to a temporary file beside `path`, syncs it and renames it into place.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Creates the folder and its parents where they do not exist.
void make_folder(const std::filesystem::path& path);

/// Which file it is, and when it was written to last.
struct FileStamp {
  uint64_t device = 0, number = 0;
  int64_t bytes = 0;
  int64_t seconds = 0, nanoseconds = 0;  // of the last write

  bool is_same_file(const FileStamp& other) const { return device == other.device && number == other.number; }
  bool operator==(const FileStamp&) const = default;
};

/// A file mapped read-only for as long as the object lives.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);

  /// May be zeros from some byte on where the file has become shorter, or its disk fails: see require_unchanged().
  std::span<const std::byte> bytes() const { return mapping_.bytes(); }
  /// Between reading and using what was read. E1008 where it may not be what the file held when it was mapped: the file
  /// has become shorter or longer, was written to, or could not be read.
  void require_unchanged() const;
  /// What read() makes of the bytes, with require_unchanged() behind it: also where it throws, as what is wrong with
  /// bytes that are no longer the file's is no fault of the file.
  template <typename Read>
  auto read_unchanged(const Read& read) const {
    try {
      if constexpr (std::is_void_v<decltype(read())>) {
        read();
      } else {
        auto result = read();
        require_unchanged();
        return result;
      }
    } catch (...) {
      require_unchanged();
      throw;
    }
    require_unchanged();
  }

 private:
  std::filesystem::path path_;
  GuardedMapping mapping_;  // nothing of an empty file
  FileStamp found_;
};

}  // namespace megacpp::base
