// SPDX-License-Identifier: Apache-2.0
// Plain records as JSON objects. A record lists its members once, in its own namespace, for both directions:
//   template <typename Visit, typename Self> void visit_fields(const Visit& visit, Self& self) {
//     visit("bytes", self.bytes, "at the peak");
//   }
// so that what is written and what is read cannot differ. Members are flags, integers, numbers, texts, enumerations
// (with text_of and read_text beside them), records, and lists and optionals of these; what is absent is null. This
// header includes the whole of nlohmann/json: for .cpp files alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "megacpp/base/json.h"

namespace megacpp::base {

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
struct IsList : std::false_type {};
template <typename T>
struct IsList<std::vector<T>> : std::true_type {};

template <typename T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string>;

template <typename T>
Json record_json(const T& value);

class RecordWriter {
 public:
  explicit RecordWriter(Json& object) : object_(object) {}

  template <typename T>
  void operator()(const char* name, const T& value, const char* /*documentation*/ = "") const {
    object_[name] = record_json(value);
  }

 private:
  Json& object_;
};

template <typename T>
Json record_json(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? record_json(*value) : Json();
  } else if constexpr (IsList<T>::value) {
    Json list = Json::array();
    for (const auto& each : value) list.push_back(record_json(each));
    return list;
  } else if constexpr (std::is_enum_v<T>) {
    return Json(std::string(text_of(value)));
  } else if constexpr (kIsPlain<T>) {
    return Json(value);
  } else {
    Json object = Json::object();
    visit_fields(RecordWriter(object), value);
    return object;
  }
}

/// Called with the path of a member ("memory.planned[2].bytes") whose value is of another kind, and with what is
/// wanted there.
using OnMismatch = std::function<void(const std::string& path, std::string_view wanted)>;

/// Whether it is of the wanted kind.
template <typename T>
bool read_record(const Json& json, T& value, const std::string& path, const OnMismatch& on_mismatch);

class RecordReader {
 public:
  RecordReader(const Json& object, std::string path, const OnMismatch& on_mismatch)
      : object_(object), path_(std::move(path)), on_mismatch_(on_mismatch) {}

  template <typename T>
  void operator()(const char* name, T& value, const char* /*documentation*/ = "") const {
    if (const Json* const member = find_member(object_, name))
      read_record(*member, value, path_.empty() ? name : path_ + "." + name, on_mismatch_);
  }

 private:
  const Json& object_;
  std::string path_;
  const OnMismatch& on_mismatch_;
};

/// Of one member that is no record and no list; nothing where it is of another kind.
template <typename T>
std::optional<T> plain_value(const Json& json) {
  if constexpr (std::is_same_v<T, bool>) {
    return as_flag(json);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return as_integer(json);
  } else if constexpr (std::is_same_v<T, double>) {
    return as_number(json);
  } else {
    static_assert(std::is_same_v<T, std::string>, "members are flags, int64_t, double and texts");
    const std::string* const text = as_text(json);
    return text == nullptr ? std::nullopt : std::optional(*text);
  }
}

/// Members that are absent keep their values, and so do those of another kind, but that optional ones are absent then;
/// members that nobody visits are ignored.
template <typename T>
bool read_record(const Json& json, T& value, const std::string& path, const OnMismatch& on_mismatch) {
  const auto refuse = [&](std::string_view wanted) {
    on_mismatch(path, wanted);
    return false;
  };
  if constexpr (IsOptional<T>::value) {
    value.reset();
    if (json.is_null()) return true;
    const bool is_read = read_record(json, value.emplace(), path, on_mismatch);
    if (!is_read) value.reset();
    return is_read;
  } else if constexpr (IsList<T>::value) {
    if (!json.is_array()) return refuse("a list");
    value.clear();
    for (size_t i = 0; i < json.size(); ++i)
      read_record(json[i], value.emplace_back(), path + "[" + std::to_string(i) + "]", on_mismatch);
    return true;
  } else if constexpr (std::is_enum_v<T>) {
    const std::string* const text = as_text(json);
    return (text != nullptr && read_text(*text, value)) || refuse("one of its words");
  } else if constexpr (kIsPlain<T>) {
    std::optional<T> read = plain_value<T>(json);
    if (read) value = std::move(*read);
    return read || refuse(std::is_same_v<T, std::string> ? "a text" : std::is_same_v<T, bool> ? "a flag" : "a number");
  } else {
    if (!json.is_object()) return refuse("an object");
    visit_fields(RecordReader(json, path, on_mismatch), value);
    return true;
  }
}

}  // namespace megacpp::base
