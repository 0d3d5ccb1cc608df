// SPDX-License-Identifier: Apache-2.0
// Whole files: read as text, mapped read-only, or written so that a reader sees either the old file or the new one,
// never a part. A file that cannot be read is E1008, one that cannot be written E3001, with the system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace megacpp::base {

/// The content of a file.
std::string read_file(const std::filesystem::path& path);

/// Writes the parts one after another to a temporary file beside `path`, syncs it and renames it into place.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Creates the folder and its parents where they do not exist.
void make_folder(const std::filesystem::path& path);

/// A file mapped read-only for as long as the object lives.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace megacpp::base
