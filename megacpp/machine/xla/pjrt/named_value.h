// SPDX-License-Identifier: Apache-2.0
// Name and value as plugins take them for options and give them for attributes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace megacpp::runtime::pjrt {

using Value = std::variant<int64_t, std::string, bool, float, std::vector<int64_t>>;

struct NamedValue {
  std::string name;
  Value value;
  bool operator==(const NamedValue&) const = default;
};

/// The value of that name if it is there and a T, otherwise null.
template <typename T>
const T* find(const std::vector<NamedValue>& values, std::string_view name) {
  for (const NamedValue& entry : values) {
    if (entry.name == name) return std::get_if<T>(&entry.value);
  }
  return nullptr;
}

std::string to_string(const Value& value);       // "[1,13,0]"
std::string to_string(const NamedValue& value);  // "stablehlo_current_version=[1,13,0]"

}  // namespace megacpp::runtime::pjrt
