// SPDX-License-Identifier: Apache-2.0
// The safetensors format: an 8-byte header length, a JSON header, then the tensors' bytes without gaps. Little-endian.
// A file is checked whole before any tensor is handed out (E1201); nothing in it is trusted. Reading maps the file;
// writing is atomic (E3001).
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/base/file.h"
#include "megacpp/core/ir/tensor_type.h"
#include "megacpp/run/checkpoint/stored_type.h"

namespace megacpp::checkpoint {

using Metadata = std::map<std::string, std::string>;

/// One tensor's bytes, owned by someone else; not necessarily aligned.
struct StoredTensor {
  std::string name;
  StoredType type = ir::DType::f32;
  ir::Shape shape;
  std::span<const std::byte> bytes;
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const Metadata& metadata() const { return metadata_; }
  /// All tensors, sorted by name; the bytes live as long as this object. They are the file's while it stays as it is:
  /// who has read any of them asks require_unchanged() before it uses what it has read.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  /// E1203 when there is no such tensor.
  const StoredTensor& at(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// E1008 as of base::MappedFile.
  void require_unchanged() const { file_.require_unchanged(); }

 private:
  void read_header();
  const StoredTensor* find(std::string_view name) const;

  std::string path_;
  base::MappedFile file_;
  Metadata metadata_;
  std::vector<StoredTensor> tensors_;
};

/// The elements as f32; E1203 for integer tensors.
std::vector<float> to_floats(const StoredTensor& tensor);
/// The elements as i32; E1203 for other types and for values that do not fit.
std::vector<int32_t> to_ints(const StoredTensor& tensor);

/// The elements as stored in a float type, rounded to nearest even.
std::vector<std::byte> to_bytes(std::span<const float> values, StoredType type);

/// Writes the tensors, sorted by element size and name so that all data is aligned.
void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       const Metadata& metadata);

}  // namespace megacpp::checkpoint
