// SPDX-License-Identifier: Apache-2.0
// Records (base/record.h) as JSON objects, members in the order of their list; what is absent is null. This header
// includes the whole of nlohmann/json: for .cpp files alone.
#pragma once

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/core/base/record.h"

namespace megacpp::base {

template <typename T>
Json record_json(const T& value);

class RecordWriter {
 public:
  explicit RecordWriter(Json& object) : object_(object) {}

  template <typename T, typename... About>
  void operator()(const char* name, const T& value, const About&... /*about*/) const {
    object_[name] = record_json(value);
  }

 private:
  Json& object_;
};

template <typename T>
Json record_json(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value ? record_json(*value) : Json();
  } else if constexpr (IsNamedList<T>::value) {
    Json::object_t object;  // its emplace_back does not look for the name first: there may be many
    for (const auto& [name, each] : value) object.emplace_back(name, record_json(each));
    return object;
  } else if constexpr (IsList<T>::value) {
    Json list = Json::array();
    for (const auto& each : value) list.push_back(record_json(each));
    return list;
  } else if constexpr (HasText<T>) {
    return Json(std::string_view(text_of(value)));
  } else if constexpr (kIsPlain<T> || std::is_convertible_v<T, std::string_view> || std::is_same_v<T, Json>) {
    return Json(value);
  } else {
    static_assert(Record<T>, "a record lists its members in visit_fields");
    Json object = Json::object();
    visit_fields(RecordWriter(object), value);
    return object;
  }
}

/// The same as compact text.
template <typename T>
std::string record_text(const T& value) {
  return to_text(record_json(value));
}

}  // namespace megacpp::base
