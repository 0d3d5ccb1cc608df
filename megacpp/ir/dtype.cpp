// SPDX-License-Identifier: Apache-2.0
#include "megacpp/ir/dtype.h"

#include <array>

namespace megacpp::ir {
namespace {

struct DTypeRecord {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array kDTypes = {
    DTypeRecord{DType::f32, "f32", 4},
    DTypeRecord{DType::bf16, "bf16", 2},
    DTypeRecord{DType::i32, "i32", 4},
    DTypeRecord{DType::pred, "pred", 1},
};

}  // namespace

std::string_view dtype_name(DType dtype) { return kDTypes.at(static_cast<size_t>(dtype)).name; }
int64_t dtype_bytes(DType dtype) { return kDTypes.at(static_cast<size_t>(dtype)).bytes; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeRecord& record : kDTypes)
    if (record.name == name) return record.dtype;
  return std::nullopt;
}

}  // namespace megacpp::ir
