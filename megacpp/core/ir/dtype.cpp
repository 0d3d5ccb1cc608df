// SPDX-License-Identifier: Apache-2.0
#include "megacpp/core/ir/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "megacpp/core/base/error.h"

namespace megacpp::ir {

const DTypeRecord& record(DType dtype) { return all_dtypes()[static_cast<size_t>(dtype)]; }

std::optional<DType> parse_dtype(std::string_view name) {
  const auto at = std::ranges::find(all_dtypes(), name, &DTypeRecord::name);
  if (at == all_dtypes().end()) return std::nullopt;
  return static_cast<DType>(at - all_dtypes().begin());
}

DType dtype_named(std::string_view name) {
  const std::optional<DType> dtype = parse_dtype(name);
  MEGACPP_CHECK(dtype) << "no dtype " << name;
  return *dtype;
}

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const DTypeRecord& dtype : all_dtypes())
    if (dtype.is_precision) names.emplace_back(dtype.name);
  return names;
}

double rounded(DType dtype, double value) {
  switch (record(dtype).kind) {
    case ElementKind::integer:
      return std::trunc(value);
    case ElementKind::flag:
      return value != 0.0 ? 1.0 : 0.0;
    case ElementKind::real:
      return number_of(dtype, bits_of(dtype, value));
  }
  return value;
}

uint64_t bits_of(DType dtype, double value) {
  const DTypeRecord& type = record(dtype);
  uint64_t bits = 0;
  if (type.is_real()) {
    const auto number = static_cast<float>(value);
    type.from_f32(&number, reinterpret_cast<std::byte*>(&bits), 1);
  } else {
    const auto number = static_cast<int64_t>(rounded(dtype, value));  // f32 has not all of them
    std::memcpy(&bits, &number, static_cast<size_t>(type.bytes()));
  }
  return bits;
}

double number_of(DType dtype, uint64_t bits) {
  const DTypeRecord& type = record(dtype);
  if (type.kind == ElementKind::integer) {
    const int unused = 64 - type.bits;
    return static_cast<double>(static_cast<int64_t>(bits << unused) >> unused);
  }
  float number = 0;
  type.to_f32(reinterpret_cast<const std::byte*>(&bits), &number, 1);
  return static_cast<double>(number);
}

}  // namespace megacpp::ir
