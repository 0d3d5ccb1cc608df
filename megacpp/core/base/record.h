// SPDX-License-Identifier: Apache-2.0
// A record lists its members once, in its own namespace: name, member, and what is said of it (a range, documentation).
//   template <typename Visit, base::Is<Memory> Self>
//   void visit_fields(const Visit& visit, Self& memory) {
//     visit("peak", memory.peak_bytes, "Bytes of the chip with the highest peak.");
//   }
// Everything else is made of that list: record_to_json.h writes it, record_from_json.h reads it, record_schema.h
// describes it, catalog/record_rows.h stores it, hw/chip_keys.cpp reads it from YAML. Members are flags, int64_t,
// double, texts, enums with their words (base/words.h), other types with text_of and read_text beside them, records,
// and lists, optionals and maps by name of these. What only a reader of JSON wants, computed from members, is visited
// where Self is const.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "megacpp/core/base/words.h"

namespace megacpp::base {

/// The members that every visitor accepts.
struct AnyVisitor {
  template <typename T, typename... About>
  void operator()(const char* /*name*/, T&& /*member*/, const About&... /*about*/) const {}
};

template <typename T>
concept Record = std::is_class_v<T> && requires(const AnyVisitor& visit, T& record, const T& fixed) {
  visit_fields(visit, record);
  visit_fields(visit, fixed);
};

/// The record that a list of members is for, read or written.
template <typename Self, typename T>
concept Is = std::same_as<std::remove_const_t<Self>, T>;

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
struct IsList : std::false_type {};
template <typename T>
struct IsList<std::vector<T>> : std::true_type {};

/// Values by name: an object of JSON, its members in the order of the list.
template <typename T>
struct IsNamedList : std::false_type {};
template <typename T>
struct IsNamedList<std::vector<std::pair<std::string, T>>> : std::true_type {};
template <typename T>
struct IsNamedList<std::map<std::string, T>> : std::true_type {};

template <typename T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string>;

/// Types that are written as text: enums with words, and types with text_of and read_text beside them.
template <typename T>
concept HasText = requires(const T& value, T& read, std::string_view text) {
  { text_of(value) } -> std::convertible_to<std::string_view>;
  { read_text(text, read) } -> std::same_as<bool>;
};

/// The documentation of a member: the text among what its list says of it; empty where there is none.
template <typename... About>
std::string_view doc_of(const About&... about) {
  std::string_view doc;
  [[maybe_unused]] const auto take = [&doc](const auto& one) {
    if constexpr (std::is_convertible_v<decltype(one), std::string_view>) doc = one;
  };
  (take(about), ...);
  return doc;
}

}  // namespace megacpp::base
