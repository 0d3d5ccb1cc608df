// SPDX-License-Identifier: Apache-2.0
// A checkpoint opened for reading. Opening reads the manifest and the headers of its files and refuses what does not
// agree (E1204), and so are pieces with another checksum and files that change while they are read. What is read is
// counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "megacpp/run/checkpoint/box.h"
#include "megacpp/run/checkpoint/manifest.h"
#include "megacpp/run/checkpoint/safetensors.h"

namespace megacpp::checkpoint {

class Reader {
 public:
  /// E1206 where the folder has no manifest, E1204 where manifest and files do not agree.
  explicit Reader(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  /// Compares the bytes of a piece of a tensor of the manifest with their checksum; E1204 names the file where they are
  /// others.
  void check(const std::string& tensor, const Piece& piece) const { checked_bytes(tensor, piece); }

  /// Copies what the checkpoint has of the boxes of one tensor, which must be disjoint. f32 and bf16 become each other
  /// where `dtype` is not the saved one. Only pieces that a box has a part of are read, each of them once.
  void read(const std::string& tensor, ir::DType dtype, std::span<const BoxBytes<std::byte>> boxes) const;
  /// The whole tensor, row-major.
  std::vector<std::byte> read_whole(const std::string& tensor, ir::DType dtype) const;

  /// From the files so far: to compare checksums, and then to copy what is needed.
  int64_t bytes_checked() const { return bytes_checked_; }
  int64_t bytes_copied() const { return bytes_copied_; }

 private:
  std::span<const std::byte> checked_bytes(const std::string& tensor, const Piece& piece) const;
  void require_unchanged(const std::string& file) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsFile> files_;
  mutable int64_t bytes_checked_ = 0;
  mutable int64_t bytes_copied_ = 0;
};

/// Every damaged piece or file, in words; none: all bytes are as they were written.
std::vector<std::string> verify(const std::filesystem::path& folder);

}  // namespace megacpp::checkpoint
