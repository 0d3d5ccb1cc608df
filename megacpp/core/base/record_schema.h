// SPDX-License-Identifier: Apache-2.0
// Records (base/record.h) as a JSON Schema: kinds of members and their documentation. All members are required, since
// what is absent is written as null. This header includes the whole of nlohmann/json: for .cpp files alone.
#pragma once

#include <nlohmann/json.hpp>

#include "megacpp/core/base/json.h"
#include "megacpp/core/base/record.h"

namespace megacpp::base {

template <typename T>
Json record_schema();

/// Visits the members of a record, whatever it holds.
class SchemaWriter {
 public:
  SchemaWriter(Json& properties, Json& required) : properties_(properties), required_(required) {}

  template <typename T, typename... About>
  void operator()(const char* name, const T& /*value*/, const About&... about) const {
    Json member = record_schema<T>();
    if (const std::string_view doc = doc_of(about...); !doc.empty()) member["description"] = doc;
    properties_[name] = std::move(member);
    required_.push_back(name);
  }

 private:
  Json& properties_;
  Json& required_;
};

template <typename T>
Json record_schema() {
  if constexpr (IsOptional<T>::value) {
    return {{"anyOf", Json::array({record_schema<typename T::value_type>(), Json{{"type", "null"}}})}};
  } else if constexpr (IsNamedList<T>::value) {
    using Value = std::remove_cvref_t<decltype(std::declval<T>().begin()->second)>;
    return {{"type", "object"}, {"additionalProperties", record_schema<Value>()}};
  } else if constexpr (IsList<T>::value) {
    return {{"type", "array"}, {"items", record_schema<typename T::value_type>()}};
  } else if constexpr (HasWords<T>) {
    return {{"type", "string"}, {"enum", all_words<T>()}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_integral_v<T>) {
    return {{"type", "integer"}};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {{"type", "number"}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", "string"}};
  } else {
    static_assert(Record<T>, "a record lists its members in visit_fields");
    Json properties = Json::object(), required = Json::array();
    const T record{};
    visit_fields(SchemaWriter(properties, required), record);
    return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  }
}

}  // namespace megacpp::base
