// SPDX-License-Identifier: Apache-2.0
// Records (base/record.h) out of JSON objects: what record_to_json.h wrote, and what others wrote in its place. This
// header includes the whole of nlohmann/json: for .cpp files alone.
#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/core/base/record.h"

namespace megacpp::base {

/// Called with the path of a member ("memory.planned[2].bytes") whose value is of another kind, and with what is
/// wanted there.
using OnMismatch = std::function<void(const std::string& path, std::string_view wanted)>;

enum class Absent {
  kept,    // members that are absent keep their values
  refused  // they are mismatches; those that may be absent are written as null
};

/// Options of reading a record.
struct ReadRecord {
  OnMismatch on_mismatch = {};  // none: ignored
  Absent absent = Absent::kept;

  bool refuse(const std::string& path, std::string_view wanted) const {
    if (on_mismatch) on_mismatch(path, wanted);
    return false;
  }
};

/// True when the JSON is of the wanted kind. Members of another kind keep their values, or are absent where they are
/// optional; members that nobody visits are ignored.
template <typename T>
bool read_record(const Json& json, T& value, const std::string& path, const ReadRecord& how);

class RecordReader {
 public:
  RecordReader(const Json& object, std::string path, const ReadRecord& how)
      : object_(object), path_(std::move(path)), how_(how) {}

  template <typename T, typename... About>
  void operator()(const char* name, T& value, const About&... /*about*/) const {
    const std::string path = path_.empty() ? name : path_ + "." + name;
    if (const Json* const member = find_member(object_, name)) {
      read_record(*member, value, path, how_);
    } else if (how_.absent == Absent::refused) {
      how_.refuse(path, "there");
    }
  }

 private:
  const Json& object_;
  std::string path_;
  const ReadRecord& how_;
};

/// The value of one member that is no record and no list; nothing where it is of another kind.
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

template <typename T>
bool read_plain(const Json& json, T& value, const std::string& path, const ReadRecord& how) {
  std::optional<T> read = plain_value<T>(json);
  if (!read)
    return how.refuse(path, std::is_same_v<T, std::string> ? "a text"
                            : std::is_same_v<T, bool>      ? "a flag"
                                                           : "a number");
  value = std::move(*read);
  return true;
}

template <typename T>
bool read_list(const Json& json, std::vector<T>& value, const std::string& path, const ReadRecord& how) {
  if (!json.is_array()) return how.refuse(path, "a list");
  value.clear();
  for (size_t i = 0; i < json.size(); ++i)
    read_record(json[i], value.emplace_back(), path + "[" + std::to_string(i) + "]", how);
  return true;
}

template <typename T>
bool read_named(const Json& json, T& value, const std::string& path, const ReadRecord& how) {
  if (!json.is_object()) return how.refuse(path, "an object");
  value.clear();
  for (const auto& [name, member] : json.items()) {
    std::remove_cvref_t<decltype(value.begin()->second)> each{};
    if (read_record(member, each, path + "." + name, how)) value.insert(value.end(), {name, std::move(each)});
  }
  return true;
}

template <typename T>
bool read_record(const Json& json, T& value, const std::string& path, const ReadRecord& how) {
  if constexpr (IsOptional<T>::value) {
    value.reset();
    if (json.is_null()) return true;
    const bool is_read = read_record(json, value.emplace(), path, how);
    if (!is_read) value.reset();
    return is_read;
  } else if constexpr (IsNamedList<T>::value) {
    return read_named(json, value, path, how);
  } else if constexpr (IsList<T>::value) {
    return read_list(json, value, path, how);
  } else if constexpr (HasText<T>) {
    const std::string* const text = as_text(json);
    return (text != nullptr && read_text(*text, value)) || how.refuse(path, "one of its words");
  } else if constexpr (kIsPlain<T>) {
    return read_plain(json, value, path, how);
  } else {
    static_assert(Record<T>, "a record lists its members in visit_fields");
    if (!json.is_object()) return how.refuse(path, "an object");
    visit_fields(RecordReader(json, path, how), value);
    return true;
  }
}

/// A record of which nothing is wrong or absent: `refuse`, which does not return, is called otherwise.
template <typename T>
T whole_record(const Json& json, const OnMismatch& refuse) {
  T value{};
  read_record(json, value, "", {.on_mismatch = refuse, .absent = Absent::refused});
  return value;
}

}  // namespace megacpp::base
