// SPDX-License-Identifier: Apache-2.0
// Element types in safetensors files: ours that have a name there, and those of published files alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megacpp/core/ir/dtype.h"

namespace megacpp::checkpoint {

/// The record of a type, compared by its name in the format.
class StoredType {
 public:
  StoredType(ir::DType dtype) : record_(&ir::record(dtype)) {}  // NOLINT: every state's type is one
  static StoredType f16();
  static StoredType i64();

  const ir::DTypeRecord* operator->() const { return record_; }
  bool operator==(const StoredType& other) const { return record_->safetensors == other.record_->safetensors; }

 private:
  explicit StoredType(const ir::DTypeRecord& record) : record_(&record) {}

  const ir::DTypeRecord* record_;
};

/// All that files have here.
std::vector<StoredType> stored_types();
/// The type of this name in the format: "F32".
std::optional<StoredType> stored_type_named(std::string_view name);

/// Types of real numbers, by the names that commands take: "f32".
std::vector<std::string> real_type_names();
StoredType real_type_named(std::string_view name);

}  // namespace megacpp::checkpoint
