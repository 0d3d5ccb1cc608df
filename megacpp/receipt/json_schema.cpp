// SPDX-License-Identifier: Apache-2.0
#include "megacpp/receipt/json_schema.h"

#include <type_traits>

#include "megacpp/base/json_record.h"
#include "megacpp/receipt/fields.h"

namespace megacpp::receipt {
namespace {

using base::Json;

template <typename T>
Json schema_of_type();

/// Visits the members of a record, whatever it holds.
class SchemaWriter {
 public:
  SchemaWriter(Json& properties, Json& required) : properties_(properties), required_(required) {}

  template <typename T>
  void operator()(const char* name, const T& /*value*/, const char* documentation = "") const {
    Json member = schema_of_type<T>();
    if (*documentation != '\0') member["description"] = documentation;
    properties_[name] = std::move(member);
    required_.push_back(name);
  }

 private:
  Json& properties_;
  Json& required_;
};

Json words_of_endings() {
  Json words = Json::array();
  for (int kind = 0; kind <= static_cast<int>(EndingKind::killed); ++kind)
    words.push_back(std::string(ending_name(static_cast<EndingKind>(kind))));
  return words;
}

template <typename T>
Json schema_of_type() {
  if constexpr (base::IsOptional<T>::value) {
    return {{"anyOf", Json::array({schema_of_type<typename T::value_type>(), Json{{"type", "null"}}})}};
  } else if constexpr (base::IsList<T>::value) {
    return {{"type", "array"}, {"items", schema_of_type<typename T::value_type>()}};
  } else if constexpr (std::is_same_v<T, EndingKind>) {
    return {{"type", "string"}, {"enum", words_of_endings()}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_integral_v<T>) {
    return {{"type", "integer"}};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {{"type", "number"}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", "string"}};
  } else {
    Json properties = Json::object(), required = Json::array();
    const T record{};
    visit_fields(SchemaWriter(properties, required), record);
    return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
  }
}

}  // namespace

std::string json_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "MegaCpp receipt"}};
  schema.update(schema_of_type<Receipt>());
  schema["properties"]["schema"]["const"] = kSchemaVersion;
  schema["properties"]["checksum"] = {{"type", "string"},
                                      {"pattern", "^[0-9a-f]{16}$"},
                                      {"description", "XXH64 of the other members as compact JSON, in this order"}};
  schema["required"].push_back("checksum");
  return base::to_text(schema, 1) + "\n";
}

}  // namespace megacpp::receipt
