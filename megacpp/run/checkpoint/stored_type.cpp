// SPDX-License-Identifier: Apache-2.0
#include "megacpp/run/checkpoint/stored_type.h"

#include <algorithm>

#include "megacpp/core/base/error.h"
#include "megacpp/core/ir/dtypes/element_rows.h"
#include "megacpp/core/ir/narrow_float.h"

namespace megacpp::checkpoint {
namespace {

constexpr ir::FloatFormat kHalf = {.exponent_bits = 5, .fraction_bits = 10};

float from_half(uint16_t bits) { return ir::widened(bits, kHalf); }
uint16_t to_half(float value) { return static_cast<uint16_t>(ir::narrowed(value, kHalf)); }

}  // namespace

StoredType StoredType::f16() {
  static const ir::DTypeRecord record = {.name = "f16",
                                         .bits = 16,
                                         .numpy = "float16",
                                         .safetensors = "F16",
                                         .to_f32 = ir::row_to_f32<uint16_t, from_half>,
                                         .from_f32 = ir::row_from_f32<uint16_t, to_half>};
  return StoredType(record);
}

StoredType StoredType::i64() {
  static const ir::DTypeRecord record = {
      .name = "i64", .bits = 64, .kind = ir::ElementKind::integer, .numpy = "int64", .safetensors = "I64"};
  return StoredType(record);
}

std::vector<StoredType> stored_types() {
  std::vector<StoredType> types;
  for (size_t i = 0; i < ir::all_dtypes().size(); ++i)
    if (!ir::all_dtypes()[i].safetensors.empty()) types.emplace_back(static_cast<ir::DType>(i));
  types.insert(types.end(), {StoredType::f16(), StoredType::i64()});
  return types;
}

std::optional<StoredType> stored_type_named(std::string_view name) {
  for (const StoredType& type : stored_types())
    if (type->safetensors == name) return type;
  return std::nullopt;
}

std::vector<std::string> real_type_names() {
  std::vector<std::string> names;
  for (const StoredType& type : stored_types())
    if (type->is_real()) names.emplace_back(type->name);
  return names;
}

StoredType real_type_named(std::string_view name) {
  const std::vector<StoredType> types = stored_types();
  const auto at = std::ranges::find_if(types, [name](const StoredType& type) { return type->name == name; });
  MEGACPP_CHECK(at != types.end() && (*at)->is_real()) << "no type of numbers " << name;
  return *at;
}

}  // namespace megacpp::checkpoint
